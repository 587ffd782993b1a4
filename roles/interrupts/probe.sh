# shellcheck shell=sh
# The CPUs that answer devices now.

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
tell_irqbalance() { # the environment of its process: its file may be newer
    unit_says irqbalance.service MainPID
    tr '\0' '\n' 2> /dev/null < "/proc/${unit_value:-0}/environ" | sed -n 's/^\(IRQBALANCE_BANNED_CPULIST\)=/irqbalance \1	/p'
}
