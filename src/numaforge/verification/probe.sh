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
tell_values() { # PATH...: of sysctls and knobs
    for path in /sys/devices/system/cpu/online /sys/devices/system/node/node*/cpulist \
        /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor \
        /sys/devices/system/cpu/cpu[0-9]*/cpufreq/energy_performance_preference \
        /sys/devices/system/node/node*/hugepages/*/nr_hugepages /sys/kernel/mm/hugepages/*/nr_hugepages \
        /sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/disable \
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
tell_interrupts() { # PCI-ADDRESS...: prints ADDRESS<tab>NUMBER CPULIST MANAGED
    managed=$(cat /run/numaforge/interrupts/managed 2> /dev/null)
    for device in "$@"; do
        for irq in "/sys/bus/pci/devices/$device/msi_irqs"/*; do
            path=/proc/irq/${irq##*/}/smp_affinity_list
            IFS= read -r line 2> /dev/null < "$path" || continue
            case "
$managed
" in *"
$path
"*) kind=managed ;; *) kind=free ;; esac
            printf 'interrupt %s\t%s %s %s\n' "$device" "${irq##*/}" "$line" "$kind"
        done
    done
}
tell_packet_steering() { # INTERFACE...
    for interface in "$@"; do
        for queue in "/sys/class/net/$interface/queues"/rx-*/rps_cpus; do value "$queue"; done
    done
}
tell_irqbalance() { # what its process was given, for its file may be newer
    pid=$(systemctl show -p MainPID --value irqbalance.service 2> /dev/null)
    tr '\0' '\n' 2> /dev/null < "/proc/${pid:-0}/environ" | sed -n 's/^\(IRQBALANCE_BANNED_CPULIST\)=/irqbalance \1	/p'
}
tell_slices() { # SLICE...: what they may use, and every process that may run elsewhere
    for slice in "$@"; do
        value "/sys/fs/cgroup/$slice/cpuset.cpus.effective"
        find "/sys/fs/cgroup/$slice" -name cgroup.procs -exec cat {} + 2> /dev/null | while read -r pid; do
            cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$pid/status" 2> /dev/null)
            [ -z "$cpus" ] || printf 'process %s\t%s %s\n' "$slice" "$pid" "$cpus"
        done
    done
}
tell_modules() { # MODULE...
    for module in "$@"; do
        [ ! -d "/sys/module/$module" ] || printf 'module %s\tloaded\n' "$module"
    done
}
tell_memlock() { # UNIT...
    for unit in "$@"; do
        printf 'memlock %s\t%s\n' "$unit" "$(systemctl show -p LimitMEMLOCK --value "$unit" 2> /dev/null)"
    done
}
tell_nics() { # SCRIPT FILE
    sh "$1" show "$2" | while read -r nic name now; do printf 'nic %s-%s\t%s\n' "$nic" "$name" "$now"; done
}
tell_rdma_devices() { # below /dev, by the RDMA device
    for file in /sys/class/infiniband_verbs/uverbs*/ibdev /sys/class/infiniband_mad/umad*/ibdev; do
        device=${file%/ibdev}
        device=${device##*/}
        [ ! -c "/dev/infiniband/$device" ] || printf 'rdma %s-%s\t%s\n' "$(cat "$file")" "${device%%[0-9]*}" "$device"
    done
}
tell_mig() { # WORKER
    python3 -BEs "$1" show | sed 's/^/mig /'
}
tell_bridges() { # PCI-ADDRESS...
    for bridge in "$@"; do
        printf 'bridge %s\t%s %s\n' "$bridge" "$(bridge_ids "$bridge")" "$(access_control "$bridge")"
    done
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
tell_clock() { printf 'host clock\t%s\n' "$(timedatectl show -p NTPSynchronized --value 2> /dev/null)"; }
tell_cgroup() { [ ! -e /sys/fs/cgroup/cgroup.controllers ] || printf 'host cgroup\t2\n'; }
tell_held() { held_packages "$1" | sed 's/^held \(.*\)/host held \1\tyes/'; } # MANAGER
tell_limits() { # UNIT...: those of its process, and when that started
    for unit in "$@"; do
        pid=$(systemctl show -p MainPID --value "$unit" 2> /dev/null)
        [ -r "/proc/${pid:-0}/limits" ] || continue
        printf 'host since %s\t%s\n' "$unit" "$(stat -c %Y "/proc/$pid")"
        sed -n -e "s/^Max open files *\([^ ]*\).*/host LimitNOFILE $unit	\1/p" \
            -e "s/^Max stack size *\([^ ]*\).*/host LimitSTACK $unit	\1/p" \
            -e "s/^Max core file size *\([^ ]*\).*/host LimitCORE $unit	\1/p" "/proc/$pid/limits"
    done
}
