"""What a sandbox without systemd lacks: `systemctl`, `systemd-run`, `journalctl` and a kubelet.

They do for one unit what the real ones do. The kubelet obeys one word in its drop-in: `crash` (ends at once),
`deaf` (never healthy), `flap` (healthy, then ends).
"""

from __future__ import annotations

DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
STATE = "/var/lib/kubelet/cpu_manager_state"

_KUBELET = f"""#!/usr/bin/env python3
import http.server, json, os, pathlib, sys, threading, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("Kubernetes v1.36.3"))
drop_in = pathlib.Path({DROP_IN!r})
wish = drop_in.read_text() if drop_in.exists() else ""
state = pathlib.Path({STATE!r})
state.parent.mkdir(parents=True, exist_ok=True)
if not state.exists():
    policy = "static" if "cpuManagerPolicy: static" in wish else "none"
    state.write_text(json.dumps({{"policyName": policy, "defaultCpuSet": "0-7", "writtenUnder": wish}}))
log = open("/run/kubelet.log", "a")
if "crash" in wish:
    print('E1121 "command failed" err="failed to \\\\"run\\\\" Kubelet"', file=log)
    sys.exit(1)

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *arguments):
        pass

if "flap" in wish:
    threading.Timer(1.0, os._exit, [1]).start()
if "deaf" in wish:
    time.sleep(1000)
http.server.ThreadingHTTPServer.allow_reuse_address = True
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""

_SYSTEMCTL = """#!/bin/sh
pid() { cat /run/kubelet.pid 2>/dev/null; }
alive() { [ -n "$(pid)" ] && [ -d "/proc/$(pid)" ] && ! grep -q '^State:.Z' "/proc/$(pid)/status"; }
echo "$*" >> /run/systemctl.log
case $1 in
daemon-reload | reset-failed) ;;
stop) if alive; then kill "$(pid)"; while alive; do sleep 0.05; done; fi; rm -f /run/kubelet.pid ;;
start)
    [ ! -e /run/refuse-start ] || exit 1
    setsid /usr/local/bin/kubelet PORT > /dev/null 2>&1 < /dev/null &
    echo $! > /run/kubelet.pid
    ;;
show)
    case $* in *InvocationID*) echo 0123; exit ;; esac
    if alive; then echo "MainPID=$(pid)"; echo ActiveState=active; echo SubState=running
    elif pid > /dev/null; then echo MainPID=0; echo ActiveState=failed; echo SubState=failed
    else echo MainPID=0; echo ActiveState=inactive; echo SubState=dead; fi
    echo NRestarts=0
    echo LoadState=loaded
    ;;
enable) mkdir -p /etc/systemd/system/multi-user.target.wants
    ln -sf "/etc/systemd/system/$3" "/etc/systemd/system/multi-user.target.wants/$3" ;;
is-active) [ -e "/run/units/$3" ] ;;
esac
"""

_SYSTEMD_RUN = """#!/bin/sh
after=
while :; do
    case $1 in
    --unit=*) unit=${1#--unit=} ;;
    --property=ExecStopPost=*) after=${1#--property=ExecStopPost=} ;;
    --*) ;;
    *) break ;;
    esac
    shift
done
mkdir -p /run/units
: > "/run/units/$unit"
(
    setsid "$@" & echo $! > "/run/units/$unit"
    wait $!
    $after
    rm -f "/run/units/$unit"
) > /run/unit.log 2>&1 < /dev/null &
"""


def standin_systemd(port: int) -> dict[str, str]:
    """Return the programs, by path."""
    return {
        "/usr/local/bin/kubelet": _KUBELET,
        "/usr/local/bin/systemctl": _SYSTEMCTL.replace("PORT", str(port)),
        "/usr/local/bin/systemd-run": _SYSTEMD_RUN,
        "/usr/local/bin/journalctl": "#!/bin/sh\ncat /run/kubelet.log\n",
    }
