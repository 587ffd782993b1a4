# shellcheck shell=sh
# Which modules drive what we reach the host by: the interfaces of the default routes and of our own connection.

module_of() { # FILE: the name below /sys/module of a module's file
    file=${1##*/}
    echo "${file%%.ko*}" | tr - _
}
dependencies() { # MODULE: what modprobe would load, in that order, the module last
    modprobe --show-depends "$1" 2> /dev/null | while read -r verb path _; do
        case $verb in insmod | builtin) module_of "$path" ;; esac
    done
}
own_connection() { # CLIENT PORT SERVER PORT; sudo takes it from the environment
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
after_dev() { # WORD...
    word=
    for each in "$@"; do
        if [ "$word" = dev ]; then echo "$each default-route"; fi
        word=$each
    done
}
ways_in() { # INTERFACE default-route|connection
    # shellcheck disable=SC2046 # words
    after_dev $(ip -o -4 route show default) $(ip -o -6 route show default)
    # shellcheck disable=SC2046 # four words
    set -- $(own_connection)
    [ "$#" -lt 3 ] || ip -o address show to "$3" | while read -r _ interface _; do echo "$interface connection"; done
} 2> /dev/null
drivers_of() { # INTERFACE: through bonds, bridges and VLANs
    for lower in "/sys/class/net/$1"/lower_*; do
        if [ -e "$lower" ]; then drivers_of "${lower##*/lower_}"; fi
    done
    driver=$(readlink -f "/sys/class/net/$1/device/driver/module") && [ -d "$driver" ] && echo "${driver##*/}"
}
vital_modules() { # MODULE INTERFACE default-route|connection
    ways_in | while read -r interface way; do
        for driver in $(drivers_of "$interface"); do
            for module in "$driver" $(dependencies "$driver"); do echo "$module $interface $way"; done
        done
    done | sort -u
}
parameter() { # MODULE NAME: its value; nothing where the module is not loaded or does not tell it
    if [ "$1" = nvidia ] && sed -n "s/^${2#NVreg_}: //p" /proc/driver/nvidia/params 2> /dev/null | grep .; then return; fi
    cat "/sys/module/$1/parameters/$2" 2> /dev/null
}
is_loaded() { [ -d "/sys/module/$1" ]; }
