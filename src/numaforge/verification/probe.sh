# shellcheck shell=sh
# Everything that a plan speaks of, as it is now, as lines KIND NAME<tab>VALUE.

tell_swap() {
    while read -r device _; do
        [ "$device" = Filename ] || printf 'swap %s\n' "$device"
    done < /proc/swaps
}
tell_units() { # UNIT...
    for unit in "$@"; do
        printf 'active %s\t%s\n' "$unit" "$(systemctl is-active "$unit" 2> /dev/null)"
        printf 'enabled %s\t%s\n' "$unit" "$(systemctl is-enabled "$unit" 2> /dev/null)"
    done
}
tell_ages() { # PATH...
    for path in "$@"; do
        [ ! -e "$path" ] || stat -L -c 'changed %n	%Y' "$path"
    done
}
tell_limits() { # UNIT...: those of its process, and when that started
    for unit in "$@"; do
        pid=$(systemctl show -p MainPID --value "$unit" 2> /dev/null)
        [ -r "/proc/${pid:-0}/limits" ] || continue
        printf 'host since %s\t%s\n' "$unit" "$(stat -c %Y "/proc/$pid")"
        sed -n -e "s/^Max open files *\([^ ]*\).*/host LimitNOFILE $unit	\1/p" \
            -e "s/^Max stack size *\([^ ]*\).*/host LimitSTACK $unit	\1/p" \
            -e "s/^Max core file size *\([^ ]*\).*/host LimitCORE $unit	\1/p" "/proc/$pid/limits"
    done
}
