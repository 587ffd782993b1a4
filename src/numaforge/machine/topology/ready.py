"""The ready machines of the package: topologies to try commands with, by name."""

from numaforge.lib.errors import TopologyError
from numaforge.lib.given import parse_json, read_text
from numaforge.lib.resources import machine_dir
from numaforge.machine.topology.document import from_document
from numaforge.machine.topology.model import NodeTopology

NO_HOST = "is a ready machine, which has no host to log in to"
"""The error for the name of a ready machine where a host is needed."""
_SUFFIX = ".json"


def ready_machines() -> tuple[str, ...]:
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in machine_dir().glob(f"*{_SUFFIX}")))


def ready_machine(name: str) -> NodeTopology:
    """Return a ready machine. Raises TopologyError for an unknown name."""
    if name not in ready_machines():
        raise TopologyError(
            f"there is no ready machine {name!r}", remedy=f"name one of {', '.join(ready_machines())}"
        )
    return from_document(parse_json(read_text(machine_dir() / f"{name}{_SUFFIX}", error=TopologyError)))
