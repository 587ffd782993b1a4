# shellcheck shell=sh
# Which boot loader's tools a node has, and the parameters that numaforge has added to the kernel's command line.

cmdline_loader() {
    if command -v grubby > /dev/null 2>&1; then
        echo grubby
    elif command -v update-grub > /dev/null 2>&1 && [ -d /etc/default ]; then
        echo grub
    else
        echo none
    fi
}
look_kernel_cmdline() { # RECORD
    echo "loader $(cmdline_loader)"
    echo "cmdline $(cat /proc/cmdline)"
    sed -n 's/^\([^#]\)/recorded \1/p' "$1" 2> /dev/null
}
