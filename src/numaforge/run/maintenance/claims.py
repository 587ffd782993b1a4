"""The node that each host claims to be: pyinfra prepares all hosts before it changes the first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinfra.api import Host

    from numaforge.rollout.options import RolloutOptions

    from .target import Target

_by_cluster: defaultdict[str, dict[str, str]] = defaultdict(dict)


def note_claim(host: Host, target: Target, options: RolloutOptions) -> None:
    """Record which node of the cluster a joined host claims to be."""
    if target.joined:
        _by_cluster[key_of_cluster(options)][host.name] = target.node


def claims(options: RolloutOptions) -> Mapping[str, str]:
    """Return the claimed node of each host in the cluster that the options name."""
    return _by_cluster[key_of_cluster(options)]


def key_of_cluster(options: RolloutOptions) -> str:
    """Return a key that is equal for options naming the same cluster."""
    return options.model_dump_json(include={"kubeconfig", "context", "namespace", "kubectl"})
