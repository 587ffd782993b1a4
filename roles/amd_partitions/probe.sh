# shellcheck shell=sh
# How many compute nodes the kernel's KFD has of each of AMD's GPUs.

tell_amd_partitions() {
    for gpu in /sys/bus/pci/drivers/amdgpu/*:*:*.*; do
        if [ ! -e "$gpu/current_compute_partition" ]; then continue; fi
        address=${gpu##*/}
        domain=${address%%:*} bus=${address#*:}
        device=${bus#*:} bus=${bus%%:*}
        device=${device%.*}
        place="$((0x$domain)) $((0x$bus << 8 | 0x$device << 3))"
        printf 'amd_partitions %s\t%s\n' "$address" "$(compute_nodes "$place")"
    done
}
compute_nodes() { # "DOMAIN PLACE": prints how many
    count=0
    for file in /sys/devices/virtual/kfd/kfd/topology/nodes/*/properties; do
        if [ ! -e "$file" ]; then continue; fi
        simds=0 node=0 location=0
        while read -r name value; do
            case $name in
            simd_count) simds=$value ;;
            domain) node=$value ;;
            location_id) location=$value ;;
            esac
        done < "$file"
        if [ "$simds" -gt 0 ] && [ "$node $((location & 0xfff8))" = "$1" ]; then count=$((count + 1)); fi
    done
    echo "$count"
}
