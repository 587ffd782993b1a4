# shellcheck shell=sh
# Where the processes of slices may run, as it is now.

tell_slices() { # SLICE...: every process of them, and where it may run
    for slice in "$@"; do
        find "/sys/fs/cgroup/$slice" -name cgroup.procs -exec cat {} + 2> /dev/null | while read -r pid; do
            cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$pid/status" 2> /dev/null)
            [ -z "$cpus" ] || printf 'process %s\t%s %s\n' "$slice" "$pid" "$cpus"
        done
    done
}
