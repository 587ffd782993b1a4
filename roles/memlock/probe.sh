# shellcheck shell=sh
# What units may pin.

tell_memlock() { # UNIT...
    for unit in "$@"; do
        printf 'memlock %s\t%s\n' "$unit" "$(systemctl show -p LimitMEMLOCK --value "$unit" 2> /dev/null)"
    done
}
