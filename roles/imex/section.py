"""Section `imex`: who runs NVIDIA's IMEX daemon on a tray, and which nodes it shares memory with."""

import re
from ipaddress import ip_address
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from numaforge.lib.section import Section, each_once
from numaforge.lib.section_values import as_text

_ADDRESS = r"[0-9a-fA-F:]*[0-9a-fA-F:.]+"
_SOCKET = re.compile(r"/(?:[A-Za-z0-9._-]+/)+[A-Za-z0-9._-]+")
_LONGEST_SOCKET = 107  # sockaddr_un


def _address(value: object) -> str:
    try:
        return str(ip_address(str(value)))
    except ValueError as error:
        raise ValueError(
            f"{value!r} is not an IP address; write each tray's, for example 10.0.0.11"
        ) from error


def _socket(value: object) -> str:
    text = str(value)
    if not _SOCKET.fullmatch(text) or len(text) > _LONGEST_SOCKET:
        raise ValueError(
            f"{text!r} is not the path of a socket; write for example /var/run/nvidia-imex-ctrl.sock"
        )
    return text


Address = Annotated[str, BeforeValidator(_address), as_text("IP address", f"^{_ADDRESS}$")]
SocketPath = Annotated[str, BeforeValidator(_socket), as_text("socket path", f"^{_SOCKET.pattern}$")]


class ImexService(Section):
    """What runs IMEX on a tray. Unset: the host is left as it is."""

    mode: Literal["driver-managed", "host-managed", "bare"] | None = Field(
        default=None,
        description="driver-managed: NVIDIA's DRA driver starts it in pods, and the host's unit is masked. "
        "host-managed: the host's unit runs, and the DRA driver talks to it over a socket (feature gate "
        "HostManagedIMEXDaemon). bare: the host's unit runs for work outside Kubernetes, with channel 0.",
        examples=["driver-managed"],
    )
    nodes: Annotated[tuple[Address, ...], AfterValidator(each_once)] = Field(
        default=(),
        description="The addresses of all trays of the clique, in the same order on every tray.",
        examples=[["10.0.0.11", "10.0.0.12"]],
    )
    socket: SocketPath = Field(
        default="/var/run/nvidia-imex-ctrl.sock",
        description="The command socket of a host-managed daemon; the DRA driver's hostSocketPath.",
        examples=["/etc/nvidia-imex/imex_ctrl.sock"],
    )

    @model_validator(mode="after")
    def _nodes_where_the_host_runs_it(self) -> Self:
        by_host = self.mode in ("host-managed", "bare")
        if by_host and not self.nodes:
            raise ValueError(f"mode {self.mode} needs nodes: the addresses of all trays of the clique")
        if self.nodes and not by_host:
            raise ValueError("names nodes, which only the modes host-managed and bare have")
        return self
