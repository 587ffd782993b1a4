"""Profiles, an admin's intent: found by name or path, merged, and checked on loading."""

from numaforge.profile.load import leaves, load_profile, machine_profiles, named_profiles, ready_profiles
from numaforge.roles.profile import NodeProfile

__all__ = [
    "NodeProfile",
    "leaves",
    "load_profile",
    "machine_profiles",
    "named_profiles",
    "ready_profiles",
]
