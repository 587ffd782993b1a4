# shellcheck shell=sh
# Which boot loader's tools a node has, and the parameters that numaforge has added to the kernel's command line.

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
look_kernel_cmdline() { # RECORD
    printf 'loader '
    cmdline_loader
    cmdline=
    IFS= read -r cmdline < /proc/cmdline
    printf 'cmdline %s\n' "$cmdline"
    tell_record recorded "$1"
}
