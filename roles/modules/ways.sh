# shellcheck shell=sh
# The interfaces by which the host is reached: those of the default routes, of every connection to sshd, and those to
# the storage of its file systems. The environment of sshd's session names the current connection, but systemd's
# services lack it: SSH_PORT is its port, as found at the look.

own_connection() { # CLIENT PORT SERVER PORT; sudo removes it from the environment
    process=$$
    while [ "${process:-0}" -gt 1 ]; do
        # shellcheck disable=SC2016 # the process may be gone
        told=$({ tr '\0' '\n' < "/proc/$process/environ"; } 2> /dev/null | sed -n 's/^SSH_CONNECTION=//p')
        if [ -n "$told" ]; then
            echo "$told"
            return
        fi
        process=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$process/status" 2> /dev/null)
    done
}
connections() { # PORT...: this host's addresses with a connection to one of these ports
    ports=0016
    for port in "$@"; do ports="$ports|$(printf '%04X' "$port")"; done
    grep -hE "^ *[0-9]+: [0-9A-F]+:($ports) [0-9A-F]+:[0-9A-F]+ 01 " /proc/net/tcp /proc/net/tcp6 |
        while read -r _ local _; do address_of "${local%:*}"; done | sort -u
} 2> /dev/null
address_of() { # HEX: an address as the kernel writes it, in words of native byte order
    words=${1#0000000000000000FFFF0000} # an IPv4 address in an IPv6 socket
    text=
    while [ -n "$words" ]; do
        rest=${words#????????}
        word=${words%"$rest"}
        words=$rest
        first=${word%??????} second=${word#??} third=${word#????} fourth=${word#??????}
        second=${second%????} third=${third%??}
        text="$text $fourth$third $second$first"
    done
    # shellcheck disable=SC2086 # words
    set -- $text
    if [ "$#" -gt 2 ]; then
        echo "$1:$2:$3:$4:$5:$6:$7:$8"
    else
        printf '%d.%d.%d.%d\n' "0x${1%??}" "0x${1#??}" "0x${2%??}" "0x${2#??}"
    fi
}
after_dev() { # WAY WORD...
    way=$1
    word=
    shift
    for each in "$@"; do
        if [ "$word" = dev ]; then echo "$each $way"; fi
        word=$each
    done
}
ways_in() { # INTERFACE default-route|connection
    # shellcheck disable=SC2086 # words
    { ip -o -4 route show table all && ip -o -6 route show table all; } | grep '^default' | while read -r route; do
        after_dev default-route $route
    done
    # shellcheck disable=SC2046 # four words
    set -- $(own_connection)
    # shellcheck disable=SC2086 # a port or nothing
    {
        if [ "$#" -ge 4 ]; then echo "$3"; fi
        connections ${4-} ${SSH_PORT-}
    } | sort -u | while read -r address; do
        ip -o address show to "$address" | while read -r _ interface _; do echo "$interface connection"; done
    done
} 2> /dev/null
interface_modules() { # INTERFACE: through bonds, bridges and VLANs
    for lower in "/sys/class/net/$1"/lower_*; do
        if [ -e "$lower" ]; then interface_modules "${lower##*/lower_}"; fi
    done
    kind=
    while IFS='=' read -r key value; do
        if [ "$key" = DEVTYPE ]; then kind=$value; fi
    done < "/sys/class/net/$1/uevent"
    case $kind in
    vlan) echo 8021q ;;
    bond) echo bonding ;;
    ?*) echo "$kind" | tr - _ ;;
    esac
    if [ -d "/sys/class/net/$1/bonding" ]; then echo bonding; fi
    drivers_above "/sys/class/net/$1/device"
} 2> /dev/null
drivers_above() { # DEVICE: the modules of its driver, and of its parents' drivers
    above=$(cd -P "$1" && pwd) || return 0
    while [ "${above#/sys/}" != "$above" ]; do
        driver=$(cd -P "$above/driver/module" && pwd) && echo "${driver##*/}"
        above=${above%/*}
    done
} 2> /dev/null
