# shellcheck shell=sh
# The kubelet's process.

tell_kubelet() { # UNIT
    pid=$(systemctl show -p MainPID --value "$1" 2> /dev/null)
    since=$(systemctl show -p ExecMainStartTimestampMonotonic --value "$1" 2> /dev/null)
    printf 'kubelet since\t%s\n' "${since:-0}"
    printf 'kubelet uptime\t%s\n' "$(cat /proc/uptime)"
    printf 'kubelet now\t%s\n' "$(date +%s)"
    # shellcheck disable=SC2016 # the file may be gone
    printf 'kubelet arguments\t%s\n' "$({ tr '\0' ' ' < "/proc/${pid:-0}/cmdline"; } 2> /dev/null)"
}
