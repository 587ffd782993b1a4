# shellcheck shell=sh
# The boot loader's tools on a host, and the parameters that numaforge has added to the kernel's command line.

cmdline_loader() {
    if command -v kernelstub > /dev/null 2>&1; then
        echo kernelstub
    elif command -v grubby > /dev/null 2>&1; then
        echo grubby
    elif command -v update-grub > /dev/null 2>&1 && [ -d /etc/default ]; then
        echo grub
    elif command -v bootctl > /dev/null 2>&1 && has_loader_entries; then
        echo systemd-boot
    else
        echo none
    fi
}
has_loader_entries() {
    for folder in /boot /efi /boot/efi; do
        if [ -d "$folder/loader/entries" ] || [ -e "$folder/loader/loader.conf" ]; then return 0; fi
    done
    return 1
}
# Whether an entry can be booted once is checked only where the command line differs from the plan or numaforge has
# added parameters, since the check starts processes.
look_kernel_cmdline() ( # RECORD PARAMETER...
    set +f
    unset IFS
    record_of_ours=$1
    shift
    loader=$(cmdline_loader)
    printf 'loader %s\n' "$loader"
    cmdline=
    IFS= read -r cmdline < /proc/cmdline
    printf 'cmdline %s\n' "$cmdline"
    tell_record recorded "$record_of_ours"
    for parameter; do
        case " $cmdline " in *" $parameter "*) ;; *) record_of_ours=/ ;; esac
    done
    if [ ! -e "$record_of_ours" ]; then return; fi
    if cannot_boot_once; then
        printf 'not-once %s\n' "$why"
    elif [ "$loader $menu" = "grubby menu" ]; then
        echo "not-once its entries are no files"
    else
        echo "once yes"
    fi
)
