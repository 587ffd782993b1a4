"""Names of a roll-out: those by default, those of host data, and of nodes, which become part of paths."""

import re

from numaforge.lib.errors import NumaforgeError

DEFAULT_NAME = "default"  # the default name of a roll-out
DEFAULT_POOL = "!node-role.kubernetes.io/control-plane"  # the label selector of the nodes that share a budget
LEASE_NAMESPACE = "numaforge"  # where the Leases are kept: slots, leads and the records of nodes
NODE = "numaforge.io/node"  # the annotation of a Lease with the name of its node
NODE_UID = "numaforge.io/node-uid"
"""The annotation of a Lease with the UID of its node, which tells it from a later node of the same name."""

ENDED = "numaforge.io/ended"
"""The label on a node's Lease with the ending of its last roll-out; a Lease without it is in use."""

PLACE = "numaforge_rollout"  # the host data with an admin's roll-out options
RETRY_FAILED = "numaforge_retry_failed"  # the host data that has a plan tried again that was rolled back
ANSWER_SECONDS = "numaforge_answer_seconds"
"""The host data with the time that a host may take to report what it is."""

_LONGEST = 253
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_SHOWN = 80


class NodeNameError(NumaforgeError):
    """The name is not valid for a Node."""


def node_name(text: str) -> str:
    """Return a Node's name unchanged; raises NodeNameError unless it is a DNS subdomain (RFC 1123)."""
    if len(text) <= _LONGEST and _SUBDOMAIN.fullmatch(text):
        return text
    shown = ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
    raise NodeNameError(
        f"{shown} is not the name of a Node",
        remedy=f"a Node has a DNS name (RFC 1123): lower case letters, digits, - and ., at most {_LONGEST}",
    )
