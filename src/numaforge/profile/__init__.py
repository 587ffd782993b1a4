"""The admin's intent: what a profile may say, one module per section, checked where it enters."""

from numaforge.profile.cpus import ReservedCpus
from numaforge.profile.hugepages import Hugepages
from numaforge.profile.load import leaves, load_profile, machine_profiles, named_profiles, ready_profiles
from numaforge.profile.node import NodeProfile
from numaforge.profile.tuning import CpuIdle, Tuning

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
