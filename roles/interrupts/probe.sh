# shellcheck shell=sh
# The CPUs that answer devices now.

# Of interrupts that the kernel places alone (managed) no CPUs are printed.
tell_interrupts() { # PCI-ADDRESS...
    managed=$newline$(cat /run/numaforge/interrupts/managed 2> /dev/null)$newline
    for device in "$@"; do
        for irq in "/sys/bus/pci/devices/$device/msi_irqs"/*; do
            path=/proc/irq/${irq##*/}/smp_affinity_list
            case $managed in *"$newline$path$newline"*) continue ;; esac
            IFS= read -r line 2> /dev/null < "$path" || continue
            printf 'value %s\t%s\n' "$irq" "$line"
        done
    done
}
tell_irqbalance() { # the environment of its process: its file may be newer
    unit_says irqbalance.service MainPID
    tr '\0' '\n' 2> /dev/null < "/proc/${unit_value:-0}/environ" | sed -n 's/^\(IRQBALANCE_BANNED_CPULIST\)=/irqbalance \1	/p'
}
