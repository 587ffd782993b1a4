# shellcheck shell=sh
# The kubelet's process.

tell_kubelet() { # UNIT
    pid=$(unit_says "$1" MainPID)
    since=$(unit_says "$1" ExecMainStartTimestampMonotonic)
    printf 'kubelet since\t%s\n' "${since:-0}"
    printf 'kubelet uptime\t%s\n' "$(cat /proc/uptime)"
    printf 'kubelet now\t%s\n' "$(date +%s)"
    # shellcheck disable=SC2016 # the file may be gone
    printf 'kubelet arguments\t%s\n' "$({ tr '\0' ' ' < "/proc/${pid:-0}/cmdline"; } 2> /dev/null)"
}
