# shellcheck shell=sh

look_kernel_values() { # BOOT-LINK
    swaps=0
    while read -r _; do swaps=$((swaps + 1)); done < /proc/swaps
    if [ "$swaps" -gt 1 ]; then echo swap on; else echo swap off; fi
    tell_link "$1"
}
