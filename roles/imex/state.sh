# shellcheck shell=sh
# The state of IMEX: its daemons, and its files.

imex_unit_state() { # by links, as a boot reads them
    if [ "$(readlink /etc/systemd/system/nvidia-imex.service)" = /dev/null ]; then
        echo masked
    elif [ -L /etc/systemd/system/multi-user.target.wants/nvidia-imex.service ]; then
        echo enabled
    else
        echo disabled
    fi
}
# shellcheck disable=SC3067 # dash, bash and busybox know -O
imex_daemons() { # prints "pod-daemon yes" and "host-daemon yes", which is root's: any user can start what has its name
    for process in /proc/[0-9]*; do
        if { read -r name < "$process/comm"; } 2> /dev/null && [ "$name" = nvidia-imex ]; then
            case $(cat "$process/cgroup" 2> /dev/null) in
            *kubepods*) echo "pod-daemon yes" ;;
            *) if [ -O "$process" ]; then echo "host-daemon yes"; fi ;;
            esac
        fi
    done | sort -u
}
imex_value() { # FILE KEY: the value of the last line that has it
    sed -n "s/^[[:space:]]*$2[[:space:]]*=[[:space:]]*//p" "$1" 2> /dev/null | tail -n 1 | grep .
}
imex_holders() { # processes that have a channel open
    for link in /proc/[0-9]*/fd/*; do
        case $(readlink "$link" 2> /dev/null) in
        /dev/nvidia-caps-imex-channels/*) link=${link#/proc/} && echo "${link%%/*}" ;;
        esac
    done | sort -un
}
