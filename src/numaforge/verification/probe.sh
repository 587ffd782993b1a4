# shellcheck shell=sh
# Everything that a plan speaks of, as it is now. First lines of files are "value PATH<TAB>LINE": the shell's own
# `read` needs no process, which counts with a thousand CPUs; it asks for one byte at a time, and some files of the
# kernel answer a first read only.

value() {
    [ -r "$1" ] || return 0
    case $1 in
    /proc/sys/* | */cpulist) line=$(head -n 1 "$1") ;;
    *) IFS= read -r line < "$1" || return 0 ;;
    esac
    printf 'value %s\t%s\n' "$1" "$line"
}
tell_values() { # SYSCTL-PATH...
    for path in /sys/devices/system/cpu/online /sys/devices/system/node/node*/cpulist \
        /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor \
        /sys/devices/system/cpu/cpu[0-9]*/cpufreq/energy_performance_preference \
        /sys/devices/system/node/node*/hugepages/*/nr_hugepages \
        /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag \
        /proc/sys/kernel/hostname /proc/cmdline "$@"; do
        value "$path"
    done
    while read -r device _; do
        [ "$device" = Filename ] || printf 'swap %s\n' "$device"
    done < /proc/swaps
}
tell_units() { # UNIT...
    for unit in "$@"; do
        printf 'active %s\t%s\n' "$unit" "$(systemctl is-active "$unit" 2> /dev/null)"
        printf 'enabled %s\t%s\n' "$unit" "$(systemctl is-enabled "$unit" 2> /dev/null)"
    done
}
tell_mig() { # WORKER
    python3 -BEs "$1" show | sed 's/^/mig /'
}
tell_ages() { # PATH...
    for path in "$@"; do
        [ ! -e "$path" ] || stat -L -c 'changed %n	%Y' "$path"
    done
}
tell_kubelet() { # UNIT
    pid=$(systemctl show -p MainPID --value "$1" 2> /dev/null)
    since=$(systemctl show -p ExecMainStartTimestampMonotonic --value "$1" 2> /dev/null)
    printf 'kubelet since\t%s\n' "${since:-0}"
    printf 'kubelet uptime\t%s\n' "$(cat /proc/uptime)"
    printf 'kubelet now\t%s\n' "$(date +%s)"
    # shellcheck disable=SC2016 # the file may be gone
    printf 'kubelet arguments\t%s\n' "$({ tr '\0' ' ' < "/proc/${pid:-0}/cmdline"; } 2> /dev/null)"
}
