# shellcheck shell=sh
# The access control (ACS) of a PCIe bridge, read from its configuration space as root.

# Prints the control register in decimal; fails where there is none. An extended capability begins with its id (16
# bits), its version (4) and the offset of the next one (12); ACS has its control register at +6.
access_control() { # ADDRESS
    place=256
    hops=0
    while [ "$place" -ge 256 ] && [ "$hops" -lt 64 ]; do
        # shellcheck disable=SC2046 # words
        set -- "$1" $(od -A n -v -t u1 -j "$place" -N 8 "/sys/bus/pci/devices/$1/config" 2> /dev/null)
        [ "$#" = 9 ] || return 1
        if [ $(($2 + $3 * 256)) = 13 ]; then
            echo $(($8 + $9 * 256))
            return 0
        fi
        place=$((($4 / 16 + $5 * 16) / 4 * 4))
        hops=$((hops + 1))
    done
    return 1
}
bridge_ids() { # ADDRESS: its vendor and device
    IFS= read -r vendor < "/sys/bus/pci/devices/$1/vendor" && IFS= read -r device < "/sys/bus/pci/devices/$1/device" &&
        echo "${vendor#0x}:${device#0x}"
} 2> /dev/null
controls_as() { # CONTROL MASK: whether each bit matches the mask, whose last character is bit 0
    rest=$2
    bit=1
    while [ -n "$rest" ]; do
        case ${rest#"${rest%?}"},$(($1 / bit % 2)) in
        0,1 | 1,0) return 1 ;;
        esac
        rest=${rest%?}
        bit=$((bit * 2))
    done
}
