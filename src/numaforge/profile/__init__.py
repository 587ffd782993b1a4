"""The admin's intent: what a profile may say, one module per section, checked where it enters."""

from numaforge.profile.cpus import ReservedCpus
from numaforge.profile.hugepages import Hugepages
from numaforge.profile.load import leaves, load_profile, ready_profiles
from numaforge.profile.node import NodeProfile
from numaforge.profile.tuning import Tuning

__all__ = [
    "Hugepages",
    "NodeProfile",
    "ReservedCpus",
    "Tuning",
    "leaves",
    "load_profile",
    "ready_profiles",
]
