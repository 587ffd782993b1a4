# shellcheck shell=sh
# Has the node's kubelet start with a planned configuration beside the running one, in a transient unit of its own
# (rehearsal.sh is what runs there), and prints what came of it. Of the node itself only a folder in /run is written,
# which goes with the unit. Variables: PROGRAM (the text of what runs in the unit), KUBELET (the kubelet's program, ""
# where its unit runs none), KUBELET_UNIT, RUNTIME (containerd or crio), ROOT_DIR, ENDPOINT (the socket of the runtime),
# START_SECONDS. On stdin the data that rehearsal.sh reads.

REHEARSAL_UNIT=numaforge-rehearsal.service

cannot() { # REASON
    echo "cannot $1"
}
why_no_rehearsal() { # sets `why` where the node has not what it takes
    for name in systemd-run unshare mount base64 find mktemp; do
        command -v "$name" > /dev/null 2>&1 || {
            why="the node lacks $name"
            return
        }
    done
    if [ ! -d /run/systemd/system ]; then
        why="systemd does not run"
    elif [ "$(stat -fc %T /sys/fs/cgroup)" != cgroup2fs ]; then
        why="the node has control groups v1, and only v2 gives a kubelet a tree of its own"
    elif [ "$(cat /sys/fs/selinux/enforce 2> /dev/null)" = 1 ]; then
        why="SELinux is enforcing, and its policy knows no kubelet outside of its unit"
    elif ! grep -qw overlay /proc/filesystems; then
        why="the kernel has no overlay file system"
    else
        case $ENDPOINT in
        /run/* | /var/run/*) ;;
        *) why="the container runtime's socket $ENDPOINT is not below /run" ;;
        esac
    fi
}
program_of() { # UNIT NAME: prints the file that the unit's process runs, else the installed program
    main_pid=$(systemctl show -p MainPID --value "$1" 2> /dev/null)
    running=
    if [ "${main_pid:-0}" != 0 ]; then running=$(readlink "/proc/$main_pid/exe"); fi
    case ${running##*/} in
    "$2") printf '%s\n' "$running" ;;
    *) command -v "$2" || : ;; # an upgrade has replaced the file, or nothing runs
    esac
}
rehearse() {
    why=
    why_no_rehearsal
    kubelet=$(program_of "$KUBELET_UNIT" kubelet)
    kubelet=${KUBELET:-$kubelet}
    engine=$(program_of "$RUNTIME.service" "$RUNTIME")
    if [ -z "$why" ] && [ ! -x "$kubelet" ]; then why="no program of a kubelet was found"; fi
    if [ -z "$why" ] && [ -z "$engine" ]; then why="no program of $RUNTIME was found"; fi
    if [ -z "$why" ] && systemctl is-active --quiet "$REHEARSAL_UNIT"; then why="another rehearsal is in progress"; fi
    if [ -n "$why" ]; then
        cannot "$why"
        return
    fi
    folder=$(umask 077 && mktemp -d /run/numaforge-rehearsal.XXXXXX) || {
        cannot "nothing can be written to /run"
        return
    }
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 1' HUP INT TERM
    if ! { mkdir "$folder/run" && cat > "$folder/data" && printf '%s' "$PROGRAM" > "$folder/program"; }; then
        cannot "nothing can be written to /run"
        return
    fi
    systemd-run --quiet --wait --pipe --collect --unit="$REHEARSAL_UNIT" \
        -p Delegate=yes -p CPUWeight=20 -p IOWeight=20 -p MemoryMax=2G -p MemorySwapMax=0 -p TasksMax=2048 \
        -p OOMScoreAdjust=500 -p "RuntimeMaxSec=$((START_SECONDS + 30))" -p TimeoutStopSec=60 -p KillSignal=SIGKILL \
        -p PrivateNetwork=yes -p ProtectSystem=strict -p "ExecStopPost=+$(command -v rm) -rf $folder" \
        sh "$folder/program" alone "$folder" "$kubelet" "$RUNTIME" "$engine" "$ROOT_DIR" "$ENDPOINT" \
        "$START_SECONDS" < /dev/null 2> "$folder/errors" || {
        error=$(tail -n 1 "$folder/errors")
        [ -z "$error" ] || cannot "$error"
    }
}
