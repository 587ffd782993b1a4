# shellcheck shell=sh

look_kernel_values() { # BOOT-LINK
    swaps=0
    while read -r _; do swaps=$((swaps + 1)); done < /proc/swaps
    if [ "$swaps" -gt 1 ]; then echo swap on; else echo swap off; fi
    if [ -L "$1" ]; then echo unit enabled; else echo unit disabled; fi
}
