# shellcheck shell=sh
# The properties of units, queried once for all of them: each query starts a program and costs systemd time. Which unit
# a process is of, systemd says, too: the path of its control group only names those to ask for (system_units.py).

ask_units() { # PROPERTY,... UNIT...; `unit_says` knows the answers, a block for each unit in their order
    answers=$(systemctl show -p "$@" 2> /dev/null)
    shift
    units_say=$newline$answers asked_units=
    for unit in "$@"; do
        block=${answers%%"$newline$newline"*}
        answers=${answers#"$block"}
        answers=${answers#"$newline$newline"}
        eval "unit_${#asked_units}=\$newline\$block\$newline" # the length of the names in front of it numbers it
        asked_units="$asked_units $unit$newline"
    done
}
unit_says() { # UNIT PROPERTY: sets `unit_value`, to nothing where systemd has not said it
    unit_value=
    case $asked_units in *" $1$newline"*) block=${asked_units%%" $1$newline"*} ;; *) return ;; esac
    eval "block=\$unit_${#block}"
    case $block in *"$newline$2="*) unit_value=${block##*"$newline$2="} unit_value=${unit_value%%"$newline"*} ;; esac
}
name_units() { # CONTROL-GROUPS-OF-A-PROCESS: adds the units to `units` that may be its own; below a user's all are his
    while IFS= read -r line; do
        case $line in 0::* | *:name=systemd:*) line=${line#*:*:} ;; *) continue ;; esac
        while [ -n "$line" ] && [ "${#units}" -lt 20000 ]; do
            part=${line%%/*}
            case $line in */*) line=${line#*/} ;; *) line= ;; esac
            case $part in
            '' | *[!A-Za-z0-9_.:@\\-]* | [@-]* | *@.service | *@.scope | .service | .scope) ;;
            *.service | *.scope) case " $units " in *" $part "*) ;; *) units="$units $part" ;; esac ;;
            esac
            case $part in user@*.service) line= ;; esac
        done
    done < "$1"
} 2> /dev/null
