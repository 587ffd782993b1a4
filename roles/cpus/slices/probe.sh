# shellcheck shell=sh
# The CPUs on which the processes of slices may run now.

tell_slices() { # SLICE...: each of their processes, with its allowed CPUs
    for slice in "$@"; do
        find "/sys/fs/cgroup/$slice" -name cgroup.procs -exec cat {} + 2> /dev/null | while read -r pid; do
            cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$pid/status" 2> /dev/null)
            [ -z "$cpus" ] || printf 'process %s\t%s %s\n' "$slice" "$pid" "$cpus"
        done
    done
}
