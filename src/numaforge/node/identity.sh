# shellcheck shell=sh
# Which host it is. The files that the kubelet reads for the Node object (GetSystemUUID and machine/info.go in
# cAdvisor).

tell_first() { printf '%s %s\n' "$1" "$(head -n 1 "$2" 2> /dev/null)"; }
tell_identity() {
    tell_first boot_id /proc/sys/kernel/random/boot_id
    tell_first machine_id /etc/machine-id
    tell_first system_uuid /sys/class/dmi/id/product_uuid
    echo end
}
