"""What a sandbox without systemd lacks: `systemctl`, `systemd-run`, `journalctl` and a kubelet.

They do for one unit what the real ones do. The kubelet obeys one word in its drop-in: `crash` (ends at once),
`deaf` (never healthy), `flap` (healthy, but its managers refuse their state), `idle` (healthy, but its
managers never start), `late` (all is well at first, then it ends), `once` (cannot read what it wrote itself).

A file in /run/bound is named after a unit that is bound to another one, and holds the property and the unit
by which systemd says so. Such a unit is active while there is a file of its name in /run/active, and does not
start while there is one in /run/broken. While /run/stopping exists the system is going down: nothing starts.
`systemctl reboot` and `soft-reboot` have it go down; what a boot does is for the test.

A script in /run/services is a service of its name: it runs in a control group of that name, and its
process is in /run/active while it does. It does not start while there is a file of its name in /run/broken,
nor, which is no failure, while a drop-in of it has a condition. One that calls `systemd-notify --ready` is
started when it has.

What `set-property` allows a slice stands in its cpuset.cpus.effective and below /run/slices; an empty set
changes only the latter, for the kernel keeps the CPUs of what has processes. It refuses a slice that has a
file in /run/broken.

A unit has a control group while a process is in it, as a file in /run/cgroups says.

A timer of ours is active once it was started; what it starts is for the test.

A script in /run/when, named after a phase of the journal or a staged file, runs once when that has just been
renamed into place; its $PPID is the shell that did it.

What they start is in a network of its own, in which there is no other sandbox's kubelet.
"""

from tests.ssh.sandbox import NETWORK

DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf"
STATE = "/var/lib/kubelet/cpu_manager_state"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
USERSPACE = "/run/userspace"
"""When the userspace of this boot has started, where it has by a soft reboot."""

_KUBELET = f"""#!/usr/bin/env -S python3 -IS
# Not http.server, whose import takes longer than all else here.
import json, os, pathlib, re, socket, sys, threading, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("Kubernetes v1.36.3"))
drop_in = pathlib.Path({DROP_IN!r})
wish = drop_in.read_text() if drop_in.exists() else ""
state = pathlib.Path({STATE!r})
log = open("/run/kubelet.log", "a")

def end():
    print('E1121 "command failed" err="failed to \\\\"run\\\\" Kubelet"', file=log, flush=True)
    os._exit(1)

def numbers(cpulist):
    ends = [[*map(int, part.split("-"))] for part in cpulist.split(",")]
    return {{cpu for end in ends for cpu in range(end[0], end[-1] + 1)}}

def shared(cpus):
    # The pool of CPUs that pods share: with strict-cpu-reservation without the reserved ones.
    reserved = re.search(r"reservedSystemCPUs: \\D?([\\d,-]+)", wish)
    if reserved is None or not re.search(r"strict-cpu-reservation: \\W?true", wish):
        return cpus
    return ",".join(map(str, sorted(numbers(cpus) - numbers(reserved[1]))))

def start_managers():
    if "flap" in wish or ("once" in wish and state.exists() and "once" in state.read_text()):
        end()
    state.parent.mkdir(parents=True, exist_ok=True)
    online = pathlib.Path("/sys/devices/system/cpu/online")
    cpus = online.read_text().strip() if online.exists() else "0-7"
    if state.exists() and json.loads(state.read_text() or "{{}}").get("seen", cpus) != cpus:
        end()  # "the set of available CPUs doesn't match"
    if not state.exists():
        policy = "static" if "cpuManagerPolicy: static" in wish else "none"
        held = {{"policyName": policy, "defaultCpuSet": shared(cpus), "seen": cpus, "writtenUnder": wish}}
        state.write_text(json.dumps(held))
    if "idle" not in wish:
        path = pathlib.Path("/var/lib/kubelet/device-plugins/kubelet.sock")
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen()
    if "late" in wish:
        threading.Timer(1.0, end).start()

def serve_health(port):
    with socket.create_server(("127.0.0.1", port), reuse_port=False) as server:
        while True:
            connection, _ = server.accept()
            connection.settimeout(2)
            with connection:
                try:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
                except OSError:  # it has gone
                    pass

if "crash" in wish:
    end()
if "deaf" in wish:
    time.sleep(1000)
listener = socket.socket(socket.AF_UNIX)
threading.Timer(0.6, start_managers).start()
serve_health(int(sys.argv[1]))
"""

_SYSTEMCTL = """#!/bin/sh
for unit; do :; done
service() { [ -e "/run/services/$1" ]; }
running() { { read -r _ _ state _ < "/proc/$1/stat"; } 2> /dev/null && [ "$state" != Z ]; }
alive() { [ -n "$pid" ] && running "$pid"; }
look_at_kubelet() {
    pid= main=0 active=failed sub=failed
    [ ! -e /run/kubelet.pid ] || read -r pid < /run/kubelet.pid
    if alive; then main=$pid active=active sub=running
    elif [ -z "$pid" ]; then active=inactive sub=dead; fi
}
group_of() { # UNIT: sets `group`, as the system's manager keeps it
    group=
    case $1 in
    user@*.service) group=${1#user@} && group=/user.slice/user-${group%.service}.slice/$1 ;;
    *) ! grep -qsE "^0::/system.slice/$1(/|$)" /run/cgroups/* || group=/system.slice/$1 ;;
    esac
}
case "$*" in # every run asks this: it waits for no job, and reads what is renamed into place
*local-fs.target)
    since=1
    [ ! -e USERSPACE ] || read -r since < USERSPACE
    echo "$since"
    exit
    ;;
"show -p Id,ControlGroup "*)
    shift 3
    for unit; do
        group_of "$unit"
        printf 'Id=%s\nControlGroup=%s\n\n' "$unit" "$group"
    done
    exit
    ;;
"show -p MainPID,ControlGroup,ExecStart "*) # the kubelet is no kubelet's program: it is not told of
    shift 3
    for unit; do
        main=0
        [ ! -e "/run/active/$unit" ] || read -r main < "/run/active/$unit" || main=0
        group_of "$unit"
        printf 'MainPID=%s\nControlGroup=%s\n' "$main" "$group"
        [ ! -e "/usr/lib/systemd/system/$unit" ] || while IFS='= ' read -r key start _; do
            [ "$key" != ExecStart ] || echo "ExecStart={ path=$start ; }"
        done < "/usr/lib/systemd/system/$unit"
        echo
    done
    exit
    ;;
"show -p ActiveState,SubState,"* | "show -p ActiveState,SubState "*)
    shift 3
    for unit; do
        load=not-found active=inactive sub=dead
        if service "$unit"; then load=loaded; fi
        if [ -e "/run/active/$unit" ]; then active=active sub=running; fi
        cpus=
        [ ! -e "/run/slices/$unit" ] || read -r cpus < "/run/slices/$unit"
        case $unit in
        *.slice) load=loaded active=active ;;
        kubelet.service) load=loaded; look_at_kubelet ;;
        esac
        printf 'EnvironmentFiles=%s (ignore_errors=yes)\n' /etc/default/irqbalance
        printf '%s=%s\n' LoadState $load ActiveState $active SubState $sub UnitFileState enabled \
            AllowedCPUs "$cpus"
        echo
    done
    exit
    ;;
"show -p ActiveState,"*)
    shift 3
    for unit; do
        main=0 active=inactive
        if [ -e "/run/active/$unit" ]; then active=active; read -r main < "/run/active/$unit" || main=0; fi
        [ "$unit" != kubelet.service ] || look_at_kubelet
        printf 'ActiveState=%s\nMainPID=%s\n' $active "$main"
        [ "$unit" != kubelet.service ] || [ ! -e /run/kubelet.started ] ||
            echo "ExecMainStartTimestampMonotonic=$(stat -c %Y /run/kubelet.started)"
        echo
    done
    exit
    ;;
esac
exec 8> /run/systemctl.lock
flock 8
look_at_kubelet
case $1,$unit in
show,numaforge-*)
    if [ -e "/run/units/$unit" ]; then state=loaded; else state=not-found; fi
    case $* in *--value*) echo "$state" ;; *) echo "LoadState=$state" ;; esac
    exit
    ;;
esac
bound() { # FILE: sets `binds` to what is in it
    binds=
    [ ! -e "$1" ] || read -r binds < "$1" || :
    [ -n "$binds" ]
}
reverse() { # PROPERTY UNIT: sets `found` to the units that name it where the property is the reverse
    found=
    for file in /run/bound/*; do
        if bound "$file" && [ "$binds" = "$1 $2" ]; then found="$found ${file##*/}"; fi
    done
}
deactivate() { # what is bound to UNIT
    for file in /run/bound/*; do
        bound "$file" || continue
        case $binds in
        *" $1") rm -f "/run/active/${file##*/}"; deactivate "${file##*/}" ;;
        esac
    done
}
tell() { # NAME VALUE, where it is asked for
    case $asked in *" $1 "*) echo "$1=$2" ;; esac
}
start_service() {
    [ ! -e "/run/active/$1" ] || return 0
    [ ! -e "/run/broken/$1" ] && [ ! -e /run/stopping ] || return 1
    ! grep -qs "^ConditionPathExists=!" "/etc/systemd/system/$1.d/"*.conf || return 0
    mkdir -p /run/active /run/cgroups
    rm -f "/run/$1.ready"
    NOTIFY_SOCKET=/run/$1.ready setsid sh "/run/services/$1" > /dev/null 2>&1 < /dev/null 8>&- 9>&- &
    echo "0::/system.slice/$1" > "/run/cgroups/$1"
    mount --bind "/run/cgroups/$1" "/proc/$!/cgroup"
    echo $! > "/run/active/$1"
    grep -qx "systemd-notify --ready" "/run/services/$1" || return 0
    while [ ! -e "/run/$1.ready" ]; do
        if ! running $!; then rm "/run/active/$1"; return 1; fi
        sleep 0.05
    done
}
stop_service() {
    [ -e "/run/active/$1" ] || return
    kill -KILL "$(cat "/run/active/$1")"
    while running "$(cat "/run/active/$1")"; do sleep 0.05; done
    rm "/run/active/$1"
}
case "$*" in
"show -p LoadState --value nvidia-"*)
    if service "$unit"; then echo loaded; else echo not-found; fi
    exit
    ;;
"show -p RequiredBy "*)
    shift
    for property; do
        case $property in
        *.service) ;;
        *) continue ;;
        esac
        for name in RequiredBy RequisiteOf BoundBy ConsistsOf; do
            reverse "$name" "$property"
            echo "$name=${found# }"
        done
        echo
    done
    exit
    ;;
*shutdown.target)
    all=$*
    case $all in *.service*)
        exec 8>&-
        "$0" ${all% shutdown.target}
        echo ;;
    esac
    if [ -e /run/stopping ]; then job=7; else job=; fi
    printf 'ActiveState=inactive\nJob=%s\n' "$job"
    exit
    ;;
is-failed*)
    if service "$unit" && [ -e "/run/broken/$unit" ]; then echo failed; else echo inactive; fi
    exit
    ;;
is-active*)
    if [ -e "/run/active/$unit" ]; then state=active; else state=inactive; fi
    case $* in *--quiet*) ;; *) echo $state ;; esac
    [ $state = active ]
    exit
    ;;
esac
echo "$*" >> /run/systemctl.log
case $1,$unit in
start,numaforge-*.timer)
    [ -e "/etc/systemd/system/$unit" ] && mkdir -p /run/active && : > "/run/active/$unit"
    exit
    ;;
stop,numaforge-*.service) # of a timer, both in one call
    for unit; do
        case $unit in numaforge-*.timer) rm -f "/run/active/$unit" ;; esac
    done
    exit
    ;;
esac
case "$*" in
"set-property --runtime "*)
    [ ! -e "/run/broken/$3" ] || exit 1
    mkdir -p /run/slices "/run/systemd/system.control/$3.d"
    echo "${4#AllowedCPUs=}" | tr ',' ' ' > /run/slices/new && /bin/mv /run/slices/new "/run/slices/$3"
    echo "$4" > "/run/systemd/system.control/$3.d/50-AllowedCPUs.conf"
    cpus=${4#AllowedCPUs=}
    [ -z "$cpus" ] || echo "$cpus" > "/sys/fs/cgroup/$3/cpuset.cpus.effective"
    exit
    ;;
esac
if service "$unit"; then
    verb=$1
    for unit; do
        case $verb,$unit in
        start,*.service) start_service "$unit" || exit ;;
        stop,*.service) stop_service "$unit" ;;
        restart,*.service) stop_service "$unit"; start_service "$unit" || exit ;;
        esac
    done
    exit
fi
case $1,$unit in
*,kubelet.service | reboot,* | soft-reboot,*) ;;
start,* | restart,*)
    [ -e "/run/bound/$unit" ] && [ ! -e "/run/broken/$unit" ] && [ ! -e /run/stopping ] &&
        : > "/run/active/$unit"
    exit
    ;;
esac
case $1 in
daemon-reload | reset-failed) ;;
reboot | soft-reboot)
    [ ! -e /run/refuse-reboot ] || exit 1
    if [ "$1" = soft-reboot ]; then : > /run/soft; fi
    : > /run/stopping
    for running in /run/units/*; do
        if [ -e "$running" ]; then setsid kill -TERM "$(cat "$running")"; fi
    done
    ;;
stop)
    deactivate "$unit"
    if alive; then kill "$pid"; while alive; do sleep 0.05; done; fi
    rm -f /run/kubelet.pid
    ;;
start | restart)
    [ ! -e /run/refuse-start ] && [ ! -e /run/stopping ] || exit 1
    if alive; then exit; fi
    setsid nsenter --net=NETWORK /usr/local/bin/kubelet PORT > /dev/null 2>&1 < /dev/null 8>&- 9>&- &
    echo $! > /run/kubelet.pid
    cat BOOT_ID > /run/kubelet.started
    ;;
show)
    case $* in *InvocationID*) echo 0123; exit ;; esac
    asked=" $* "
    since=0
    case $asked in *TimestampMonotonic*)
        started='' boot=
        [ ! -e /run/kubelet.started ] || read -r started < /run/kubelet.started
        read -r boot < BOOT_ID
        [ -z "$started" ] || [ "$started" != "$boot" ] || since=$(stat -c %Y /run/kubelet.started) ;;
    esac
    tell MainPID "$main"
    tell ActiveState $active
    tell SubState "$sub"
    tell NRestarts 0
    tell ExecMainStartTimestampMonotonic "$since"
    tell ActiveEnterTimestampMonotonic "$since"
    tell LoadState loaded
    ;;
enable) mkdir -p /etc/systemd/system/multi-user.target.wants
    ln -sf "/etc/systemd/system/$3" "/etc/systemd/system/multi-user.target.wants/$3" ;;
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
[ ! -e /run/stopping ] || exit 1
mkdir -p /run/units
: > "/run/units/$unit"
(
    setsid nsenter --net=NETWORK "$@" & echo $! > "/run/units/$unit"
    wait $!
    nsenter --net=NETWORK $after
    rm -f "/run/units/$unit"
) > /run/unit.log 2>&1 < /dev/null &
"""

_MV = """#!/bin/sh
for when in /run/when/* /run/when/.n*; do [ ! -e "$when" ] || break; done
[ -e "$when" ] || exec /bin/mv "$@"
/bin/mv "$@" || exit
for target; do :; done
case $target in
*/state) IFS= read -r event < "$target" ;;
*) event=${2##*/} ;;
esac
if [ -e "/run/when/$event" ]; then
    script=$(cat "/run/when/$event")
    rm "/run/when/$event"
    eval "$script"
fi
exit 0
"""


def notifying(start: str) -> str:
    """Return a service for /run/services that is started once it has done this, and then runs on."""
    return f"{start}\nsystemd-notify --ready\nexec sleep 1000\n"


def standin_systemd(port: int) -> dict[str, str]:
    """Return the programs, by path."""
    return {
        "/usr/local/bin/kubelet": _KUBELET,
        "/usr/local/bin/systemctl": _SYSTEMCTL.replace("PORT", str(port))
        .replace("NETWORK", NETWORK)
        .replace("BOOT_ID", BOOT_ID)
        .replace("USERSPACE", USERSPACE),
        "/usr/local/bin/systemd-run": _SYSTEMD_RUN.replace("NETWORK", NETWORK),
        "/usr/local/bin/systemd-notify": '#!/bin/sh\n: > "$NOTIFY_SOCKET"\n',
        "/usr/local/bin/journalctl": "#!/bin/sh\ncat /run/kubelet.log\n",
        "/usr/local/bin/mv": _MV,
        BOOT_ID: "the first boot\n",
    }
