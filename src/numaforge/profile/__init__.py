"""The admin's intent: what a profile may say, one module per section, checked where it enters."""

from numaforge.profile.load import leaves, load_profile, machine_profiles, named_profiles, ready_profiles
from numaforge.profile.node import NodeProfile
from numaforge.roles.cpus.section import ReservedCpus
from numaforge.roles.hugepages.section import Hugepages
from numaforge.roles.kernel_values.section import CpuIdle, Tuning

__all__ = [
    "CpuIdle",
    "Hugepages",
    "NodeProfile",
    "ReservedCpus",
    "Tuning",
    "leaves",
    "load_profile",
    "machine_profiles",
    "named_profiles",
    "ready_profiles",
]
