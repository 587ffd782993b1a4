# shellcheck shell=sh
# The properties of units, queried once for all of them: each query starts a program and costs systemd time.

ask_units() { # PROPERTY,... UNIT...; `unit_says` knows the answers, a block for each unit in their order
    answers=$(systemctl show -p "$@" 2> /dev/null)
    shift
    units_say=
    for unit in "$@"; do
        block=${answers%%"$newline$newline"*}
        answers=${answers#"$block"}
        answers=${answers#"$newline$newline"}
        units_say="${units_say}[$unit]$newline$block$newline"
    done
}
unit_says() { # UNIT PROPERTY: sets `unit_value`, to nothing where systemd has not said it
    unit_value=
    block=${units_say#*"[$1]$newline"}
    if [ "$block" = "$units_say" ]; then return; fi
    block=$newline${block%%"${newline}["*}
    case $block in *"$newline$2="*) unit_value=${block##*"$newline$2="} unit_value=${unit_value%%"$newline"*} ;; esac
}
