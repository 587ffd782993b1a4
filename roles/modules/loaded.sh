# shellcheck shell=sh
# The state of modules, from the kernel and modprobe.

is_loaded() { [ -d "/sys/module/$1" ]; }
module_of() { # FILE of a module: its name below /sys/module
    file=${1##*/}
    echo "${file%%.ko*}" | tr - _
}
dependencies() { # MODULE: what modprobe would load, in order: dependencies, also soft ones, then the module
    modprobe --show-depends "$1" 2> /dev/null | while read -r verb path _; do
        case $verb in insmod | builtin) module_of "$path" ;; esac
    done
}
used_by() { # MODULE: the loaded modules that it uses
    for holder in "/sys/module/"*"/holders/$1"; do
        if [ ! -e "$holder" ]; then continue; fi
        holder=${holder%/holders/*}
        echo "${holder##*/}"
        used_by "${holder##*/}"
    done
}
users_of() { # MODULE: the loaded modules that use it
    for user in "/sys/module/$1/holders"/*; do
        if [ ! -e "$user" ]; then continue; fi
        echo "${user##*/}"
        users_of "${user##*/}"
    done
}
nvidia_parameter() { # NAME: the driver quotes strings; "" is an unset one
    sed -n "s/^$1: //p" /proc/driver/nvidia/params 2> /dev/null | sed 's/^"\(..*\)"$/\1/'
}
parameter() { # MODULE NAME: its value; nothing where the module is not loaded or does not expose it
    if [ "$1" = nvidia ] && nvidia_parameter "${2#NVreg_}" | grep .; then return; fi
    cat "/sys/module/$1/parameters/$2" 2> /dev/null
}
