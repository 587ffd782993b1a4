# shellcheck shell=sh
# Everything that a plan speaks of, as it is now, as lines KIND NAME<tab>VALUE.

tell_swap() {
    while read -r device _; do
        [ "$device" = Filename ] || printf 'swap %s\n' "$device"
    done < /proc/swaps
}
# systemd is asked twice for all units: each question starts a program, and takes systemd from its work.
tell_units() { # UNIT...; `unit_says` knows what was answered
    said=$(systemctl show -p ActiveState -p MainPID -p ExecMainStartTimestampMonotonic -p LimitMEMLOCK "$@" 2> /dev/null)
    units_say=$newline
    for unit in "$@"; do # a block each, in their order
        block=${said%%"$newline$newline"*}
        said=${said#"$block"}
        said=${said#"$newline$newline"}
        for property in $block; do units_say="$units_say$unit $property$newline"; done
        printf 'active %s\t%s\n' "$unit" "$(unit_says "$unit" ActiveState)"
    done
    tell_enabled "$@"
}
unit_says() { # UNIT PROPERTY
    value=${units_say#*"$newline$1 $2="}
    if [ "$value" != "$units_say" ]; then printf '%s\n' "${value%%"$newline"*}"; fi
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
    for path in "$@"; do
        [ ! -e "$path" ] || stat -L -c 'changed %n	%Y' "$path"
    done
}
tell_limits() { # UNIT...: those of its process, and when that started
    for unit in "$@"; do
        pid=$(unit_says "$unit" MainPID)
        [ -r "/proc/${pid:-0}/limits" ] || continue
        printf 'host since %s\t%s\n' "$unit" "$(stat -c %Y "/proc/$pid")"
        sed -n -e "s/^Max open files *\([^ ]*\).*/host LimitNOFILE $unit	\1/p" \
            -e "s/^Max stack size *\([^ ]*\).*/host LimitSTACK $unit	\1/p" \
            -e "s/^Max core file size *\([^ ]*\).*/host LimitCORE $unit	\1/p" "/proc/$pid/limits"
    done
}
