# shellcheck shell=sh
# NIC settings that are lost at a boot. A line of a list is NIC NAME VALUE: PCI-ADDRESS max_read_request BYTES,
# INTERFACE trust dscp|pcp, INTERFACE pfc PRIORITY,...|none, INTERFACE channels NUMBER; elsewhere an unknown value is
# "-".
# One byte of config space is written through sysfs: not every host has setpci.

byte_at() { od -A n -v -t u1 -j "$2" -N 1 "$1" 2> /dev/null | tr -d '[:space:]'; } # FILE OFFSET
device_control() { # CONFIG: the offset of PCIe's Device Control (PCI Express capability, id 0x10, at 8)
    place=$(byte_at "$1" 52)
    hops=48 # the most capabilities of four bytes: more is a loop
    while [ "${place:-0}" -ge 64 ] && [ "$hops" -gt 0 ]; do
        if [ "$(byte_at "$1" "$place")" = 16 ]; then
            echo $((place + 8))
            return
        fi
        place=$(byte_at "$1" $((place + 1)))
        hops=$((hops - 1))
    done
    return 1
}
config_of() { echo "/sys/bus/pci/devices/$1/config"; } # PCI-ADDRESS
nic_is_there() {                                       # NIC NAME
    case $2 in
    max_read_request) [ -e "$(config_of "$1")" ] ;;
    *) [ -e "/sys/class/net/$1" ] ;;
    esac
}
nic_value() { # NIC NAME
    case $2 in
    max_read_request) read_request "$1" ;;
    trust) mlnx_qos -i "$1" | sed -n 's/^Priority trust state: *//p' ;;
    pfc) if has dcb; then pfc_by_dcb "$1"; else pfc_by_mlnx_qos "$1"; fi ;;
    channels) channels "$1" | sed -n 's/^now //p' ;;
    esac 2> /dev/null | grep . || echo -
}
channels() { # INTERFACE: "most NUMBER" and "now NUMBER" of combined channels; a driver without them says 0 or n/a
    ethtool -l "$1" 2> /dev/null | sed -n -e '1,/^Current/s/^Combined:[[:space:]]*\([1-9][0-9]*\)$/most \1/p' \
        -e '/^Current/,$s/^Combined:[[:space:]]*\([1-9][0-9]*\)$/now \1/p'
}
has() { command -v "$1" > /dev/null 2>&1; }
read_request() { # PCI-ADDRESS: bits 12 to 14 of Device Control: 0 is 128 bytes
    place=$(device_control "$(config_of "$1")") || return 1
    high=$(byte_at "$(config_of "$1")" $((place + 1)))
    [ -z "$high" ] || echo $((128 << (high >> 4 & 7)))
}
enabled_ones() { # 0|1...: the priorities whose flag is 1
    number=0
    list=
    for flag in "$@"; do
        if [ "$flag" = 1 ]; then list=$list${list:+,}$number; fi
        number=$((number + 1))
    done
    if [ "$number" = 8 ]; then echo "${list:-none}"; fi
}
pfc_by_dcb() { # INTERFACE; dcb prints "prio-pfc 0:off ... 3:on ..."
    # shellcheck disable=SC2046 # a word for each priority
    enabled_ones $(dcb pfc show dev "$1" prio-pfc | tr ' ' '\n' | sed -n -e 's/^[0-7]:on$/1/p' -e 's/^[0-7]:off$/0/p')
}
pfc_by_mlnx_qos() { # INTERFACE
    # shellcheck disable=SC2046 # a word for each priority
    enabled_ones $(mlnx_qos -i "$1" | sed -n 's/^[[:space:]]*enabled//p' | head -n 1)
}
set_nic() { # NIC NAME VALUE
    case $2 in
    max_read_request) set_read_request "$1" "$3" ;;
    trust) mlnx_qos -i "$1" --trust "$3" ;;
    pfc) set_pfc "$1" "$3" ;;
    channels) ethtool -L "$1" combined "$3" ;;
    esac > /dev/null 2>&1
}
set_read_request() { # PCI-ADDRESS BYTES
    config=$(config_of "$1")
    place=$(device_control "$config") || return 1
    code=0
    while [ $((128 << code)) -lt "$2" ]; do code=$((code + 1)); done
    high=$(byte_at "$config" $((place + 1)))
    octal=$(printf '%03o' $((high & 15 | code << 4))) # bit 15 would reset the function: it is never set
    # shellcheck disable=SC2059 # one byte, as octal digits
    printf "\\$octal" | dd of="$config" bs=1 count=1 seek=$((place + 1)) conv=notrunc
}
set_pfc() { # INTERFACE PRIORITY,...|none
    flags=
    for priority in 0 1 2 3 4 5 6 7; do
        case ",$2," in
        *",$priority,"*) flags="$flags $priority:on" ;;
        *) flags="$flags $priority:off" ;;
        esac
    done
    if has dcb; then
        # shellcheck disable=SC2086 # a word for each priority
        dcb pfc set dev "$1" prio-pfc $flags
    else
        mlnx_qos -i "$1" --pfc "$(echo "$flags" | sed -e 's/ [0-7]:on/,1/g' -e 's/ [0-7]:off/,0/g' -e 's/^,//')"
    fi
}
nics_each() { # FILE COMMAND: run it with NIC NAME VALUE of each line
    while IFS=' ' read -r nic name value <&3; do
        case $nic in '' | '#'*) ;; *) "$2" "$nic" "$name" "$value" 3<&- ;; esac
    done 3< "$1"
}
nics_show() { nics_each "$1" show_nic; } # FILE: the present values
show_nic() { printf '%s %s %s\n' "$1" "$2" "$(nic_value "$1" "$2")"; }
nics_change() { # FILE: sets `complaints`; tries every NIC, and leaves settings alone that the host has no tool for
    complaints=
    nics_each "$1" change_nic
    complaints=${complaints%; }
}
change_nic() { # NIC NAME VALUE
    was=$(nic_value "$1" "$2")
    if [ "$was" = "$3" ]; then return; fi
    if ! nic_is_there "$1" "$2"; then
        complaints="$complaints$1 is not there; "
    elif [ "$was" = - ]; then
        echo "$1: $2 unchanged, for lack of a tool" >&2
    else
        set_nic "$1" "$2" "$3"
        is=$(nic_value "$1" "$2")
        if [ "$is" != "$3" ]; then complaints="$complaints$1: $2 is $is, and $3 is not accepted; "; fi
    fi
}
nics_apply_at_boot() { # FILE
    nics_change "$1"
    [ -z "$complaints" ] || {
        echo "$complaints" >&2
        return 1
    }
}
