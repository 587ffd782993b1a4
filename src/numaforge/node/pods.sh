# shellcheck shell=sh
# Evidence of pods, whatever a unit says: containers run on without their kubelet. A process whose control group is
# below `kubepods` is a pod's, with any driver, version or root of control groups. What keeps a pod's containers
# (containerd's shim of the namespace k8s.io, CRI-O's conmon) may stand outside of them, as with Kata or
# cgroupsPerQOS: false. A pod's folder alone is no running pod: the kubelet starts it again when it starts.

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
    # What grep has gone through ends with the kernel's own line: without it nothing follows from what is missing.
    seen=$(grep -slE 'kubepods|^(containerd-shim|conmon|kubelet|kubelite|k3s-|Linux version)' \
        [0-9]*/cgroup [0-9]*/comm version 2> /dev/null)
    case $seen in
    *version) if [ ! -r 1/cgroup ]; then echo "unknown the processes of others cannot be read"; fi ;;
    *) echo "unknown the processes cannot be read" ;;
    esac
    samples=0
    for file in $seen; do
        case $file in
        */cgroup) tell_alive in_pod "${file%/*}" ;;
        */comm) tell_keeper "${file%/*}" ;;
        esac
    done
}
tell_alive() { # COMMAND PID: the command says whether it is a pod's, and sets `why`
    if [ "$samples" -lt "$POD_SAMPLES" ] && "$@"; then
        samples=$((samples + 1))
        read_name "$2"
        printf 'alive %s %s %s\n' "$2" "${name:-?}" "$why"
    fi
}
read_name() {
    name=
    IFS= read -r name < "$1/comm"
} 2> /dev/null
in_pod() { # PID: the group of a process that has ended may be deleted, and the process not reaped
    while IFS= read -r line; do
        case $line in
        *kubepods*' (deleted)') ;;
        *kubepods*)
            why="in ${line#*:*:}"
            return 0
            ;;
        esac
    done < "$1/cgroup"
    return 1
} 2> /dev/null
tell_keeper() { # PID
    read_name "$1"
    case $name in
    containerd-shim* | conmon*) tell_alive keeps_pod "$1" ;;
    kubelet | kubelite | k3s-agent | k3s-server) printf 'kubelet %s %s\n' "$1" "$name" ;;
    esac
}
keeps_pod() { # PID: Docker's shims have another namespace, podman's conmon other paths
    read_name "$1"
    line=
    IFS= read -r line < "$1/cmdline" # its words, of which the shell drops the NULs between
    case $name:$line in
    containerd-shim*:*-namespacek8s.io*) why="of containerd's namespace k8s.io" ;;
    conmon*:*/crio/* | conmon*:*/var/log/pods/*) why="of CRI-O" ;;
    *) return 1 ;;
    esac
} 2> /dev/null
