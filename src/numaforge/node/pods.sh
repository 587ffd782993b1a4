# shellcheck shell=sh
# Evidence of pods, whatever a unit says: containers run on without their kubelet. A process whose control group is
# below `kubepods` is a pod's, with any driver, version or root of control groups. What keeps a pod's containers
# (containerd's shim of the namespace k8s.io, CRI-O's conmon) may stand outside of them, as with Kata or
# cgroupsPerQOS: false. A pod's folder alone is no running pod: the kubelet starts it again when it starts.
#
# "Drained" is a lease: $FOLDER/allowed has the pods that may be on the node while the transaction disturbs pods, a UID
# a line; a static pod's is the hash of its manifest. Any other pod is foreign, and parks a step that disturbs pods.
# What keeps a pod that cannot be told (the container runtime has removed its record, or has made it for another client
# than the kubelet) is foreign too, unless the very process was there when the lease was given after a drain: then a
# line has its PID:START.

POD_SAMPLES=3 # the number of processes to name

# Prints lines "alive PID NAME WHY", "kubelet PID NAME", "left FOLDER" and "unknown WHY".
tell_pods() ( # ROOT-DIR...
    set +f
    unset IFS
    cd /proc 2> /dev/null || :
    tell_evidence "$@"
)
tell_evidence() {
    for root; do
        if [ -d "$root/pods" ] && [ ! -r "$root/pods" ]; then echo "unknown $root/pods cannot be read"; fi
        for pod in "$root"/pods/*/; do
            if [ -d "$pod" ]; then echo "left ${pod%/}" && break; fi
        done
    done
    find_processes 'kubepods|^(containerd-shim|conmon|kubelet|kubelite|k3s-)'
    samples=0
    for file in $files; do
        case $file in
        */cgroup) tell_alive in_pod "${file%/*}" ;;
        */comm) tell_keeper "${file%/*}" ;;
        esac
    done
}
find_processes() { # PATTERN: sets `files` to those of control groups and names that have it
    # grep's output ends with a line of the kernel's own; without that line, a missing match proves nothing.
    files=$(grep -slE "$1|^Linux version" [0-9]*/cgroup [0-9]*/comm version 2> /dev/null)
    case $files in
    *version) if [ ! -r 1/cgroup ]; then echo "unknown the processes of others cannot be read"; fi ;;
    *) echo "unknown the processes cannot be read" ;;
    esac
}
tell_alive() { # COMMAND PID: the command says whether it is a pod's, and sets `why`, and `uid` to the pod's
    if [ "$samples" -ge "$POD_SAMPLES" ] || ! "$@" || may_stay "$uid"; then return; fi
    samples=$((samples + 1))
    if [ -n "${allowed-}" ]; then name_pod; fi
    read_name "$2"
    printf 'alive %s %s %s\n' "$2" "${name:-?}" "$why"
}
may_stay() { # UID: in a look no pod may, with a lease those that it allows; its line "static" allows all static pods
    case ${allowed-} in
    *" $1 "*) [ -n "$1" ] ;;
    *" static "*) is_static "$1" ;;
    *) return 1 ;;
    esac
}
is_static() { # UID: the hash of its manifest, where the API server's pods have a UUID
    case $1 in *[!0-9a-f]*) return 1 ;; *) [ "${#1}" -eq 32 ] ;; esac
}
name_pod() { # once, and by the folder of its logs
    allowed="$allowed$uid "
    for folder in "/var/log/pods/"*_"$(printf %s "$uid" | tr _ -)"; do
        if [ ! -d "$folder" ]; then continue; fi
        folder=${folder##*/}
        folder=${folder%_*}
        why="of the pod ${folder%%_*}/${folder#*_} $why"
    done
}
read_name() {
    name=
    IFS= read -r name < "$1/comm"
} 2> /dev/null
in_pod() { # PID: the group of a process that has ended may be deleted, and the process not reaped
    while IFS= read -r line; do
        case $line in
        *kubepods*' (deleted)') ;;
        *:/user.slice/*) ;; # a user makes groups of any name there, and starts no pod of this node
        *kubepods*)
            why="in ${line#*:*:}"
            find_uid "${line#*:*:}"
            return 0
            ;;
        esac
    done < "$1/cgroup"
    return 1
} 2> /dev/null
find_uid() { # CONTROL-GROUP: sets `uid` as systemd's slices have it, without a "-"; "" where the group names no pod
    uid=
    rest=${1#*kubepods}/
    while [ -n "$rest" ] && [ -z "$uid" ]; do # the outermost pod: a pod may make groups below its own
        group=${rest%%/*}
        rest=${rest#*/}
        case $group in
        pod?*) uid=${group#pod} ;;
        *-pod?*.slice) uid=${group##*-pod} uid=${uid%.slice} ;;
        esac
    done
    while :; do
        case $uid in
        *-*) uid=${uid%%-*}_${uid#*-} ;;
        *) return ;;
        esac
    done
}
tell_keeper() { # PID
    read_name "$1"
    case $name in
    containerd-shim* | conmon*) tell_alive keeps_pod "$1" ;;
    kubelet | kubelite | k3s-agent | k3s-server) printf 'kubelet %s %s\n' "$1" "$name" ;;
    esac
}
keeps_pod() { # PID: Docker's shims have another namespace, podman's conmon other paths, and any user can have these names
    # shellcheck disable=SC3067 # dash, bash and busybox know -O
    [ -O "$1" ] || return 1
    read_name "$1"
    line=
    IFS= read -r line < "$1/cmdline" # its words, of which the shell drops the NULs between
    case $name:$line in
    containerd-shim*:*-namespacek8s.io*) why="of containerd's namespace k8s.io" ;;
    conmon*:*/crio/* | conmon*:*/var/log/pods/*) why="of CRI-O" ;;
    *) return 1 ;;
    esac
    uid=
    if [ -n "${allowed-}" ]; then find_kept_uid "$1"; fi
} 2> /dev/null
find_kept_uid() { # PID, with its words in `line`: sets `uid`, to PID:START where its pod cannot be told
    case $line in
    */var/log/pods/*_*_*/*) # conmon's log
        group=${line#*/var/log/pods/}
        group=${group%%/*}
        group=pod${group##*_}
        ;;
    *) # a shim works in the folder of its sandbox, which containerd describes there
        group=pod$(sed -n 's/.*"io\.kubernetes\.cri\.sandbox-uid": *"\([^"]*\)".*/\1/p' "$1/cwd/config.json" | tail -n 1)
        ;;
    esac
    find_uid "kubepods/$group"
    if [ -z "$uid" ]; then uid=$1:$(start_time "$1"); fi
}
start_time() { # PID: in clock ticks since the boot
    read -r stat < "/proc/$1/stat" || return
    set -f
    # shellcheck disable=SC2086 # its words, after a name that may have any bytes
    set -- ${stat##*) }
    echo "${20}"
} 2> /dev/null
foreign_pods() { # sets `why` to those that are there without being allowed; without a lease none is foreign
    [ -e "$FOLDER/allowed" ] || return 1
    evidence=
    while read -r kind pid name what; do
        case $kind in
        alive) evidence="${evidence:+$evidence; }process $pid ($name) $what" ;;
        unknown) evidence="${evidence:+$evidence; }$pid $name $what" ;;
        esac
    done << END
$(allowed=" $(tr '\n-' ' _' < "$FOLDER/allowed") " && tell_pods)
END
    why="pods have come that must not be disturbed: $evidence"
    [ -n "$evidence" ]
}
keepers_that_stay() ( # as lines of a lease
    cd /proc || exit
    allowed=" "
    grep -slE '^(containerd-shim|conmon)' [0-9]*/comm | while IFS= read -r file; do
        if keeps_pod "${file%/*}"; then case $uid in *:*) echo "$uid" ;; esac; fi
    done
)
