# shellcheck shell=sh
# The kubelet's process.

tell_kubelet() { # UNIT
    unit_says "$1" MainPID
    pid=${unit_value:-0}
    unit_says "$1" ExecMainStartTimestampMonotonic
    printf 'kubelet since\t%s\n' "${unit_value:-0}"
    printf 'kubelet uptime\t%s\n' "$(cat /proc/uptime)"
    printf 'kubelet now\t%s\n' "$(date +%s)"
    # shellcheck disable=SC2016 # the file may be gone
    printf 'kubelet arguments\t%s\n' "$({ tr '\0' ' ' < "/proc/$pid/cmdline"; } 2> /dev/null)"
}
