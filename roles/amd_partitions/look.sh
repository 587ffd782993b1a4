# shellcheck shell=sh

look_amd_partitions() { # BOOT-LINK [PROGRAM-OF-HOLDERS]
    tell_link "$1"
    if [ -z "${2-}" ]; then return; fi
    tell_holders "/dev/kfd|/dev/dri/($(amd_nodes))" "$2"
    if command -v modprobe > /dev/null; then echo "modprobe yes"; fi
}
amd_nodes() { # the names of the device files of AMD's GPUs, with | between
    names=none
    for node in /sys/bus/pci/drivers/amdgpu/*:*:*.*/drm/* /sys/devices/platform/amdgpu_xcp*/drm/*; do
        name=${node##*/}
        number=${name#card} && number=${number#renderD}
        case $number in
        '' | *[!0-9]*) ;;
        *) names="$names|$name" ;;
        esac
    done
    echo "$names"
}
