# shellcheck shell=sh
# Prints the present state of everything in a plan, as lines KIND NAME<tab>VALUE.

# Prints the units' states; `unit_says` has their other properties.
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
# is-enabled reads the files that a boot reads; `show` may be older. A unit unknown to systemd ends the answer.
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
    stat -L -c 'changed %n	%Y' "$@" 2> /dev/null || : # only of existing files
}
tell_limits() { # UNIT...: the limits of its process, and the start time
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
