"""Ask one host, without an inventory."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gevent import monkey  # type: ignore[import-untyped]
from pyinfra.api import Config, Host, Inventory, State
from pyinfra.api.connect import disconnect_all
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.context import ctx_host, ctx_state

from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.run.hosts.connector import use_own_connectors
from numaforge.run.hosts.errors import connect_error

Answer = TypeVar("Answer")


def answer_of(name: str, data: Mapping[str, Any], ask: Callable[[Host], Answer]) -> Answer:
    """Connect to one host, ask it, and return the answer; raises HostError, and what `ask` raises."""
    monkey.patch_all()
    try:
        inventory = Inventory(([name], {}), override_data=dict(data))  # type: ignore[no-untyped-call]
        use_own_connectors(inventory)
        state = State(inventory, Config(), check_for_changes=False)  # type: ignore[no-untyped-call]
        (host,) = list(state.inventory)
    except (PyinfraError, TypeError, ValueError) as error:  # TypeError: host data of another kind
        raise HostError(
            f"is not a host name that pyinfra accepts: {error}",
            where=name,
            remedy="write a name for SSH, or a connector that pyinfra has, such as @local or @docker/NAME",
        ) from error
    try:
        host.connect(raise_exceptions=True, show_errors=False)
        with ctx_state.use(state), ctx_host.use(host):
            return ask(host)
    except ConnectError as error:
        raise connect_error(error).at(name) from error
    except NumaforgeError as error:
        raise error.at(name) from error
    finally:
        disconnect_all(state)
