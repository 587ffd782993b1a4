# shellcheck shell=sh
# Everything that a plan speaks of, as it is now, as lines KIND NAME<tab>VALUE.

tell_swap() {
    while read -r device _; do
        [ "$device" = Filename ] || printf 'swap %s\n' "$device"
    done < /proc/swaps
}
# Beside `unit_says`, which knows more of them, their states.
tell_units() { # PROPERTY,... UNIT...
    properties=ActiveState,$1
    shift
    ask_units "$properties" "$@"
    for unit in "$@"; do
        unit_says "$unit" ActiveState
        printf 'active %s\t%s\n' "$unit" "$unit_value"
    done
    tell_enabled "$@"
}
# Asked of the files that a boot reads: what `show` says of it may be older. One that systemd does not know ends the answer.
tell_enabled() { # UNIT...
    said=$(systemctl is-enabled "$@" 2> /dev/null)
    answers=0
    for _ in $said; do answers=$((answers + 1)); done
    for unit in "$@"; do
        if [ "$answers" = "$#" ]; then
            state=${said%%"$newline"*}
            said=${said#*"$newline"}
        else
            state=$(systemctl is-enabled "$unit" 2> /dev/null)
        fi
        printf 'enabled %s\t%s\n' "$unit" "$state"
    done
}
tell_ages() { # PATH...
    stat -L -c 'changed %n	%Y' "$@" 2> /dev/null || : # of those that exist
}
tell_limits() { # UNIT...: those of its process, and when that started
    for unit in "$@"; do
        unit_says "$unit" MainPID
        pid=${unit_value:-0}
        [ -r "/proc/$pid/limits" ] || continue
        printf 'host since %s\t%s\n' "$unit" "$(stat -c %Y "/proc/$pid")"
        sed -n -e "s/^Max open files *\([^ ]*\).*/host LimitNOFILE $unit	\1/p" \
            -e "s/^Max stack size *\([^ ]*\).*/host LimitSTACK $unit	\1/p" \
            -e "s/^Max core file size *\([^ ]*\).*/host LimitCORE $unit	\1/p" "/proc/$pid/limits"
    done
}
