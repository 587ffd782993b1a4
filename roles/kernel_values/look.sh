# shellcheck shell=sh

look_kernel_values() { tell_link "$1"; } # BOOT-LINK
