"""The names of the resources that NVIDIA's device plugin advertises."""

import re

PREFIX = "nvidia.com/"
SHARED = ".shared"
GPU = f"{PREFIX}gpu"
MIG_PREFIX = f"{PREFIX}mig-"
GPU_RESOURCE = re.compile(r"nvidia\.com/(gpu|mig-([1-9]c\.)?[0-9]+g\.[0-9]+gb[a-z.-]*?)(\.shared)?")
"""Matches the plugin's resources, and none of other plugins."""
MOST_REPLICAS = 1024
"""The most replicas of a device considered: with more, a replica is too small for any program."""


def mig_resource(profile: str) -> str:
    """Return the resource of a MIG profile under the strategy `mixed`."""
    return f"{MIG_PREFIX}{profile.replace('+', '.')}"
