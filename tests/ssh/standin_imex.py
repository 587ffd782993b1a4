"""What a sandbox without NVIDIA's packages lacks: `nvidia-imex`, its unit and `nvidia-imex-ctl`.

The daemon is a process of the name nvidia-imex that reads config.cfg and the list of nodes as the real one
is documented to, and writes its state beside the socket: INITIALIZING, then READY; it ends where the list of
nodes is empty. `nvidia-imex-ctl -q --u=SOCKET` prints that state. It is no real IMEX: no
memory is shared, and no peer is spoken to.
"""

from tests.ssh.sandbox import Sandbox

UNIT = "nvidia-imex.service"
UNIT_FILE = f"/usr/lib/systemd/system/{UNIT}"
CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
PACKAGES_CONFIG = """# the package's own
LOG_LEVEL=4
SERVER_PORT=50000
IMEX_CMD_ENABLED=0
# IMEX_CMD_UNIX_DOMAIN_PATH=
IMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg
LOG_FILE_NAME=/var/log/nvidia-imex.log
"""
_DAEMON = """#!/usr/bin/env -S python3 -IS
import ctypes, pathlib, sys, time
ctypes.CDLL(None).prctl(15, b"nvidia-imex", 0, 0, 0)  # PR_SET_NAME
if pathlib.Path("/run/imex-broken").exists():
    sys.exit(1)
lines = pathlib.Path("/etc/nvidia-imex/config.cfg").read_text().splitlines()
keys = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
listed = pathlib.Path(keys["IMEX_NODE_CONFIG_FILE"]).read_text().splitlines()
nodes = [line for line in listed if line and not line.startswith("#")]
if not nodes:
    sys.exit("no node")
with open("/run/imex.log", "a") as log:
    print(",".join(nodes), file=log)
state = pathlib.Path(keys.get("IMEX_CMD_UNIX_DOMAIN_PATH", "/run/imex-state") + ".state")
if keys.get("IMEX_CMD_ENABLED") == "1":
    state.write_text("INITIALIZING\\n")
    time.sleep(0.5)
    state.write_text("DEGRADED\\n" if pathlib.Path("/run/imex-degraded").exists() else "READY\\n")
time.sleep(1000)
"""
_CTL = """#!/bin/sh
case $1,$2 in
-q,--u=*) cat "${2#--u=}.state" ;;
*) exit 1 ;;
esac
"""


def standin_imex() -> dict[str, str]:
    """Return the files of the package, its unit disabled."""
    return {
        "/usr/bin/nvidia-imex": _DAEMON,
        "/usr/bin/nvidia-imex-ctl": _CTL,
        UNIT_FILE: "[Service]\nExecStart=/usr/bin/nvidia-imex\n",
        CONFIG: PACKAGES_CONFIG,
        NODES: "",
    }


def install_imex(node: Sandbox) -> None:
    """Make the programs programs, and have the stand-in for systemd know the unit."""
    node.run("chmod 755 /usr/bin/nvidia-imex /usr/bin/nvidia-imex-ctl; mkdir -p /run/services")
    node.path(f"/run/services/{UNIT}").write_text("exec /usr/bin/nvidia-imex\n")
