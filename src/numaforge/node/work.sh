# shellcheck shell=sh
# Evidence of work that is no pod's, by its kind: batch jobs, virtual machines, containers of other engines. The control
# group of a process says what it belongs to; its name counts only where no group would show such work. A user may forge
# such groups and names: that refuses a change, and permits none. What has begun waits only for what is `firm`: a group
# outside of user.slice, a name of root's. A host that is itself a container has its own group around all of them: what
# is below it counts.

WORK_SAMPLES=3 # how many of each kind to name
WORK_GROUPS='slurm|/pbs|/lsf/|condor|machine\.slice|qemu\.slice|docker|libpod-|nerdctl-|/lxc'
WORK_NAMES='slurmstepd|condor_starter|qemu-|kvm$|cloud-hyperviso|firecracker|containerd-shim'

# Prints lines "work KIND WHAT, process PID (NAME)", "more KIND", "user NAME" and "unknown WHY".
tell_work() (
    set +f
    unset IFS
    cd /proc 2> /dev/null || :
    tell_workers
    tell_users
)
tell_workers() {
    own=
    find_processes "$WORK_GROUPS|^($WORK_NAMES)" # of pods.sh
    if in_work_group 1; then own=$group; fi
    for file in $files; do
        case $file in
        */cgroup) in_work_group "${file%/*}" ;;
        */comm) works_by_name "${file%/*}" ;;
        *) continue ;;
        esac && note_work "${file%/*}"
    done
}
tell_users() { # people who are logged in
    for user in /run/systemd/users/*; do
        case ${user##*/} in
        [1-9][0-9][0-9][0-9]*)
            while IFS= read -r line; do
                case $line in NAME=*) echo "user ${line#*=}" ;; esac
            done < "$user"
            ;;
        esac
    done
}
note_work() { # PID: prints `kind` and `what` once, and no more than the first ones of each kind
    eval "known=\${known_$kind-} count=\${count_$kind-0}"
    # shellcheck disable=SC2154 # set by eval
    case $known in
    *"|$what|"*) return ;;
    esac
    if [ "$count" -gt "$WORK_SAMPLES" ]; then return; fi
    if [ "$count" -eq "$WORK_SAMPLES" ]; then
        echo "more $kind"
    else
        read_name "$1"
        printf 'work %s %s, process %s (%s)\n' "$kind" "$what" "$1" "${name:-?}"
    fi
    eval "known_$kind=\"\$known|\$what|\" count_$kind=$((count + 1))"
}
in_work_group() { # PID: sets `kind`, `what` and `group`
    while IFS= read -r line; do
        group=${line#*:*:}
        case ${firm-}:$group in firm:*/user.slice/*) continue ;; esac
        if work_of "${group#"$own"}"; then return 0; fi
    done < "$1/cgroup"
    return 1
} 2> /dev/null
work_of() { # CONTROL-GROUP: sets `kind` and `what`; the group of a process that has ended may be deleted
    case $1/ in
    *' (deleted)/' | *kubepods*) return 1 ;;
    *slurm*/job_[0-9]*) is_work slurm "job ${1##*/job_}" ;;
    */pbs*/jobid/?*) is_work pbs "job ${1##*/jobid/}" ;;
    */pbspro*[/-][0-9]*) is_work pbs "job ${1##*/pbspro*[/-]}" ;;
    */lsf/*job.[0-9]*) is_work lsf "job ${1##*job.}" ;;
    *condor*slot*) is_work htcondor "slot ${1##*slot}" ;;
    */docker-*.scope/*) is_work docker "container ${1##*/docker-}" ;;
    */docker/?*) is_work docker "container ${1##*/docker/}" ;;
    */libpod-conmon-*) is_work podman "container ${1##*/libpod-conmon-}" ;;
    */libpod-payload-*) is_work podman "container ${1##*/libpod-payload-}" ;;
    */libpod-*) is_work podman "container ${1##*/libpod-}" ;;
    */nerdctl-*.scope/*) is_work containerd "container ${1##*/nerdctl-}" ;;
    */lxc.payload.?*) is_work lxc "container ${1##*/lxc.payload.}" ;;
    */lxc.payload/?*) is_work lxc "container ${1##*/lxc.payload/}" ;;
    */lxc/?*) is_work lxc "container ${1##*/lxc/}" ;;
    */machine.slice/machine-qemu*) is_work vm "machine ${1##*/machine-qemu?x2d}" ;;
    */qemu.slice/*.scope/*) is_work vm "machine ${1##*/qemu.slice/}" ;;
    */machine.slice/*.scope/* | */machine.slice/*.service/*) is_work lxc "machine ${1##*/machine.slice/}" ;;
    *) return 1 ;;
    esac
}
is_work() { # KIND WHAT, with what follows its name
    kind=$1
    what=${2%%/*}
    what=${what%.scope}
    case $kind:$what in
    docker:*????????????????????? | podman:*????????????????????? | containerd:*?????????????????????)
        what=${what%"${what#??????????????????????}"} # 12 digits, as these engines show them
        ;;
    esac
}
works_by_name() { # PID: slurmstepd waits for jobs under that name, too
    # shellcheck disable=SC3067 # dash, bash and busybox know -O
    [ -z "${firm-}" ] || [ -O "$1" ] || return 1
    name='' line='' groups=''
    IFS= read -r name < "$1/comm"
    IFS= read -r line < "$1/cmdline" # its words, of which the shell drops the NULs between
    while IFS= read -r group; do groups="$groups ${group#*:*:}"; done < "$1/cgroup"
    case $name:$groups in
    *kubepods* | *kata_overhead*) return 1 ;;
    slurmstepd:*)
        case $line in *infinity*) return 1 ;; esac
        if ! in_work_group "$1"; then is_work slurm "step ${line##*slurmstepd: }"; fi
        ;;
    condor_starter:*) is_work htcondor "job starter $1" ;;
    containerd-shim*) shim_works "$1" ;;
    qemu-*:*/containerd.service* | qemu-*:*/crio.service*) return 1 ;; # of a pod, whose shim shows it
    qemu-* | kvm:* | cloud-hyperviso* | firecracker*)
        if ! in_work_group "$1"; then is_work vm "machine $1"; fi
        ;;
    *) return 1 ;;
    esac
} 2> /dev/null
shim_works() { # PID of a shim with the command line `line`; Docker's may have a pod's container (cri-dockerd)
    engine=containerd
    case $line in
    *-namespacek8s.io*) return 1 ;;
    *-namespacemoby*)
        engine=docker children=
        read -r children < "$1/task/$1/children"
        for child in $children; do
            while IFS= read -r group; do
                case $group in *kubepods*) return 1 ;; esac
            done < "$child/cgroup"
        done
        ;;
    *-namespace*) ;;
    *) return 1 ;;
    esac
    id=${line##*-id}
    is_work "$engine" "container ${id%%-address*}"
} 2> /dev/null
