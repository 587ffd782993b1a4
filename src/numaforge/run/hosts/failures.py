"""A host's failure affects that host alone."""

from collections.abc import Callable

from pyinfra import logger
from pyinfra.api import Host
from pyinfra.api.output import format_text

from numaforge.lib.errors import HostError, HostUnreachableError, NumaforgeError
from numaforge.report.printable import plain
from numaforge.rollout import events
from numaforge.run.hosts.errors import fault
from numaforge.run.hosts.overview import overview
from numaforge.run.hosts.patches import go_on_without_failed


def fail_host(host: Host, error: NumaforgeError) -> None:
    """Report the error once and take the host out of the run; the rest continues; pyinfra exits with 1."""
    print_error(host, error)
    go_on_without_failed(host.state)
    inventory_host = host.state.inventory.get_host(
        host.name
    )  # not pyinfra's `host`, which is another one elsewhere
    host.state.fail_hosts({inventory_host})  # type: ignore[no-untyped-call]


def record_answer(host: Host, kind: str, answer: Callable[[], object]) -> None:
    """Record a host's answer, as JSON data, for the process that started this run; or why it has none."""
    if host in host.state.failed_hosts:
        return
    try:
        document = answer()
    except HostError as error:
        fail_host(host, error)
    except NumaforgeError as error:
        events.record(kind, host.name, refused=str(error))
    except Exception as error:  # one odd host must not end the run of all
        events.record(kind, host.name, refused=str(fault(error)))
    else:
        events.record(kind, host.name, document=document)


def print_error(host: Host, error: NumaforgeError) -> None:
    """Report why a host fails, with the other hosts; at once, too, while hosts are changed; as an event."""
    tell_refused(host, error)
    if (together := overview()) is not None:
        together.fail(host, error)
        if not host.state.is_executing:
            return
    say_error(host, error)


def tell_refused(host: Host, error: NumaforgeError) -> None:
    """Record why a host fails as an event."""
    kind = "unreachable" if isinstance(error, HostUnreachableError) else "refused"
    events.record(kind, host.name, message=str(error))


def say_error(host: Host, error: NumaforgeError) -> None:
    """Report why a host fails, at once."""
    for line in str(error).splitlines():
        logger.error("%s%s", host.print_prefix, format_text(plain(line), "red"))
