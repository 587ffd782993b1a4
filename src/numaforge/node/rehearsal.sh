# shellcheck shell=sh
# A kubelet's rehearsal: it starts with a planned configuration, sees the machine as it will be, and nothing that it
# does reaches the node. Runs in a transient unit with a network of its own (loopback alone) whose file systems are
# read-only (rehearse.sh), and takes further namespaces: mounts, IPC and control groups in `alone`, processes in `apart`.
#
# Why it leaves nothing: what a kubelet writes lies in file systems of memory that end with its mounts: all of /run, so
# that neither a runtime nor systemd is within its reach, its root folder, /var/log, whose folders of unknown pods it
# would remove, and /tmp. Kernel values that it sets are files of memory, too. Its control groups are below those of the
# unit, and systemd removes them with it; its rules of iptables are in its network; its processes end with the first of
# them.
#
# The data has a line for each:
#   file PATH BASE64    a planned file
#   removed PATH        a file that the plan removes
#   face PATH BASE64    a file below /sys or /proc as the plan makes it
#   figure PATH NAME VALUE   the value of the line `NAME: VALUE` of such a file as the plan makes it
#   offline CPU         a CPU that the plan takes offline
#   hidden PATH         a folder in whose place there is an empty one
#   copied PATH         a folder, below one that is hidden, that stays
#   cgroup NAME         a control group that the configuration names
#   argument TEXT       an argument of the kubelet
#
# Prints lines of: `outcome started|ended|late`, `took HUNDREDTHS`, `cpu MICROSECONDS`, `state NAME BASE64`,
# `output BASE64`; or `cannot REASON`.

OWN=/run/rehearsal
STARTED='Starting Kubelet Plugin Manager' # nothing that is started after the managers can end the kubelet
MOST_OUTPUT=65536
SYSCTLS='vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys
kernel/keys/root_maxbytes' # those that a kubelet sets (setupKernelTunables in container_manager_linux.go)

cannot() { # REASON
    echo "cannot $1"
    exit 0
}
attempt() { # COMMAND...: its error is why there can be no rehearsal
    error=$("$@" 2>&1) || cannot "${error:-$* failed}"
}
tell() { echo "$1" > "$2"; } # TEXT FILE
each() { # KIND COMMAND: run it with the words of each line of that kind
    while read -r kind words; do
        # shellcheck disable=SC2086 # a path and base64
        case $kind in "$1") "$2" $words ;; esac
    done < "$OWN/data"
}
look_at_clock() { # sets `now` to hundredths of a second since the boot
    read -r now _ < /proc/uptime
    now=${now%.*}${now#*.}
}

# ---- mounts and control groups ----

alone() { # FOLDER and what `apart` takes
    exec unshare --mount --ipc --uts --cgroup sh "$1/program" prepare "$@"
}
prepare() { # FOLDER KUBELET RUNTIME PROGRAM ROOT-DIR ENDPOINT SECONDS
    look_at_clock
    begun=$now root_dir=$5
    attempt mount -n -t tmpfs -o mode=0755,size=64m rehearsal "$1/run"
    attempt mkdir -m 0700 "$1/run/rehearsal"
    attempt cp "$1/data" "$1/program" "$1/run/rehearsal/"
    attempt mount -n --move "$1/run" /run
    shift
    attempt mount -n -o remount,bind,ro /sys
    own_control_groups
    for folder in "$root_dir" /var/lib/kubelet /var/log /tmp /var/tmp /var/lib/containers /var/lib/crio; do
        if [ -d "$folder" ] || [ "$2" = crio ]; then hide "$folder"; fi
    done
    if [ "$2" = crio ]; then # it makes those of its folders that are not there
        for folder in /etc/crio /etc/cni/net.d /opt/cni/bin; do writable "$folder/new"; done
    fi
    each hidden hide
    each file write
    each removed take_away
    mkdir -p "${5%/*}"
    exec unshare --pid --fork --kill-child --mount-proc sh "$OWN/program" apart "$begun" "$@"
}
own_control_groups() { # those of the unit are the root; no process may stay in it
    each cgroup note_control_group
    attempt umount -n -l /sys/fs/cgroup
    attempt mount -n -t cgroup2 rehearsal /sys/fs/cgroup
    attempt mkdir /sys/fs/cgroup/rehearsal
    attempt tell "$$" /sys/fs/cgroup/rehearsal/cgroup.procs
    pass_controllers_on /sys/fs/cgroup
    for name in $control_groups; do make_control_group "$name"; done
}
pass_controllers_on() { # FOLDER: to those below it
    read -r controllers < "$1/cgroup.controllers"
    for controller in $controllers; do attempt tell "+$controller" "$1/cgroup.subtree_control"; done
}
note_control_group() { # NAME, if the node has it: by its path, or as a slice of systemd
    plain=${1#/}
    if [ -d "/sys/fs/cgroup/$plain" ] || [ -d "/sys/fs/cgroup/$(slice "${plain##*/}")" ]; then
        control_groups="$control_groups $plain"
    fi
}
slice() { # NAME: prints where systemd has it: a.slice/a-b.slice of a-b.slice
    rest=${1%.slice} prefix='' path=''
    while :; do
        prefix=${prefix:+$prefix-}${rest%%-*}
        path=${path:+$path/}$prefix.slice
        case $rest in *-*) rest=${rest#*-} ;; *) break ;; esac
    done
    printf '%s' "$path"
}
make_control_group() { # NAME
    rest=$1 at=/sys/fs/cgroup
    while [ -n "$rest" ]; do
        if [ "$at" != /sys/fs/cgroup ]; then pass_controllers_on "$at"; fi
        at=$at/${rest%%/*}
        mkdir -p "$at"
        case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    done
}
hide() { # FOLDER, which need not be there: as large as what it hides; of the kubelet's own the plain files stay, and what is `copied`
    for hidden in $hidden_folders; do
        case $1/ in
        "$hidden"/*)
            mkdir -p "$1"
            return
            ;;
        esac
    done
    if [ ! -d "$1" ]; then
        writable "$1"
        mkdir -p "$1"
    fi
    size=$(df -P -k "$1" | sed -n '2s/^[^ ]* *\([0-9]*\) .*/\1/p')
    new=$OWN/hidden
    mkdir -p "$new"
    attempt mount -n -t tmpfs -o "mode=0755,size=${size:-65536}k" rehearsal "$new"
    case $1 in
    */kubelet | "$root_dir")
        find "$1/" -maxdepth 1 -type f -size -8192k -exec cp -p {} "$new/" \;
        if [ -d "$1/pki" ]; then
            mkdir -m 0700 "$new/pki"
            find "$1/pki/" -maxdepth 1 -type f ! -name 'kubelet-client*' -exec cp -p {} "$new/pki/" \;
        fi
        copy_to=$new copy_from=$1
        each copied copy_below
        ;;
    /tmp | /var/tmp) chmod 1777 "$new" ;;
    esac
    attempt mount -n --move "$new" "$1"
    hidden_folders="$hidden_folders$1 "
}
copy_below() { # FOLDER
    case $1 in
    "$copy_from"/*)
        if [ -d "$1" ]; then
            mkdir -p "$copy_to${1#"$copy_from"}" && cp -a "$1/." "$copy_to${1#"$copy_from"}/"
        fi
        ;;
    esac
}
writable() { # PATH: its folder, without the node's
    above=${1%/*}
    until [ -d "${above:-/}" ]; do above=${above%/*}; done
    above=${above:-/}
    case "$overlaid " in *" $above "*) return ;; esac
    if [ -w "$above" ]; then return; fi # a file system of memory
    overlays=$((overlays + 1))
    upper=$OWN/overlay$overlays
    mkdir -p "$upper/new" "$upper/work"
    attempt mount -n -t overlay -o "lowerdir=$above,upperdir=$upper/new,workdir=$upper/work" rehearsal "$above"
    overlaid="$overlaid $above"
}
write() { # PATH BASE64
    writable "$1"
    attempt mkdir -p "${1%/*}"
    printf '%s' "${2-}" | base64 -d > "$1" || cannot "$1 could not be written"
}
take_away() { # PATH
    if [ ! -e "$1" ]; then return; fi
    writable "$1"
    rm -f "$1"
}

# ---- processes ----

apart() { # BEGUN KUBELET RUNTIME PROGRAM ROOT-DIR ENDPOINT SECONDS: the first of its processes
    for folder in /proc/sys /proc/irq; do # CRI-O writes to the second one
        attempt mount -n --bind "$folder" "$folder"
        attempt mount -n -o remount,bind,ro "$folder"
    done
    hide_kernel_values
    each face face
    each figure figure
    show_cpus_left
    deadline=$(($1 + $7 * 100))
    # Each takes one CPU of the node, and none for the collection of what it throws away.
    export GOMAXPROCS=1 GOGC=off GOMEMLIMIT=768MiB
    unset NOTIFY_SOCKET INVOCATION_ID JOURNAL_STREAM
    kubelet=$2 runtime=$3 root_dir=$5 begun=$1
    start_runtime "$3" "$4" "$6"
    set --
    while IFS= read -r line; do
        case $line in "argument "*) set -- "$@" "${line#argument }" ;; esac
    done < "$OWN/data"
    "$kubelet" "$@" > "$OWN/output" 2>&1 < /dev/null &
    await_managers "$!"
}
hide_kernel_values() { # those that a kubelet writes
    for name in $SYSCTLS; do
        if [ ! -e "/proc/sys/$name" ]; then continue; fi
        next_face
        cat "/proc/sys/$name" > "$new_face"
        show "/proc/sys/$name"
    done
}
next_face() {
    faces=$((faces + 1))
    new_face=$OWN/face$faces
}
show() { # PATH: the new face in its place
    if [ -e "$1" ]; then attempt mount -n --bind "$new_face" "$1"; fi
}
face() { # PATH BASE64
    next_face
    printf '%s' "$2" | base64 -d > "$new_face"
    show "$1"
}
figure() { # PATH NAME VALUE
    next_face
    with_figure "$@" > "$new_face" || cannot "$1 could not be read"
    show "$1"
}
with_figure() { # PATH NAME VALUE: prints the file with this value
    sed "s/\($2: *\)[0-9]*/\1$3/" "$1"
}
note_offline() { # CPU
    offline=${offline:+$offline|}$1
}
show_cpus_left() { # a kubelet counts packages in /proc/cpuinfo
    each offline note_offline
    if [ -z "$offline" ]; then return; fi
    next_face
    without_cpus "$offline" /proc/cpuinfo > "$new_face"
    show /proc/cpuinfo
}
without_cpus() { # CPU|CPU... FILE: prints it without their paragraphs
    sed -E "/^processor[[:space:]]*: ($1)\$/,/^\$/d" "$2"
}
pause() { # a slow node has something else to do than to look again
    if [ "$((now - begun))" -lt 300 ]; then sleep 0.1; else sleep 1; fi
}
await_managers() { # PID: until the managers have started, or it ends
    outcome=late
    while look_at_clock && [ "$now" -lt "$deadline" ]; do
        if grep -qsF "$STARTED" "$OWN/output"; then
            outcome=started
            sleep 0.2
        fi
        if ! kill -0 "$1" 2> /dev/null; then outcome=ended; fi
        if [ "$outcome" != late ]; then break; fi
        pause
    done
    if [ "$outcome" = ended ]; then require_runtime; fi
    look_at_clock
    echo "outcome $outcome"
    echo "took $((now - begun))"
    sed -n 's/^usage_usec /cpu /p' /sys/fs/cgroup/cpu.stat
    for name in cpu_manager_state memory_manager_state; do
        if [ -e "$root_dir/$name" ]; then echo "state $name $(base64 < "$root_dir/$name" | tr -d '\n')"; fi
    done
    echo "output $(tail -c "$MOST_OUTPUT" "$OWN/output" | base64 | tr -d '\n')"
}
require_runtime() {
    kill -0 "$runtime_pid" 2> /dev/null || cannot "$runtime ended: $(tail -n 1 "$OWN/runtime")"
}
start_runtime() { # NAME PROGRAM ENDPOINT: the node's own, that knows nothing of its containers
    mkdir "$OWN/cni" # the node's folders may not exist yet, and cannot be made here
    case $1 in
    containerd)
        containerd_configuration "$3" > "$OWN/containerd.toml"
        "$2" --config "$OWN/containerd.toml" > "$OWN/runtime" 2>&1 < /dev/null &
        ready='Start streaming server'
        ;;
    crio)
        "$2" --listen "$3" --cgroup-manager cgroupfs --conmon-cgroup pod --enable-nri=false \
            --cni-config-dir "$OWN/cni" --cni-plugin-dir "$OWN/cni" \
            > "$OWN/runtime" 2>&1 < /dev/null &
        ready='' # a kubelet waits for its answer
        ;;
    esac
    runtime_pid=$!
    until [ -S "$3" ] && grep -q "$ready" "$OWN/runtime"; do
        look_at_clock
        require_runtime
        if grep 'failed to create CRI service' "$OWN/runtime" > "$OWN/refused"; then
            cannot "$1 offers no CRI: $(tail -n 1 "$OWN/refused")"
        fi
        if [ "$now" -ge "$deadline" ]; then
            cannot "$1 was not ready in time: $(tail -n 1 "$OWN/runtime")"
        fi
        pause
    done
}
containerd_configuration() { # ENDPOINT
    cat << END
version = 2
root = "$OWN/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
address = "$1"
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "$OWN/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
END
}

hidden_folders='' control_groups='' overlaid='' overlays=0 faces=0 offline=''
set -f # no path is a pattern
"$@"
