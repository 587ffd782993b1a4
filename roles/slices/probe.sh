# shellcheck shell=sh
# What slices may use, as it is now.

tell_slices() { # SLICE...: what they may use, and every process that may run elsewhere
    for slice in "$@"; do
        value "/sys/fs/cgroup/$slice/cpuset.cpus.effective"
        find "/sys/fs/cgroup/$slice" -name cgroup.procs -exec cat {} + 2> /dev/null | while read -r pid; do
            cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$pid/status" 2> /dev/null)
            [ -z "$cpus" ] || printf 'process %s\t%s %s\n' "$slice" "$pid" "$cpus"
        done
    done
}
