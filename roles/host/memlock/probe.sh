# shellcheck shell=sh
# What units may pin.

tell_memlock() { # UNIT...
    for unit in "$@"; do
        unit_says "$unit" LimitMEMLOCK
        printf 'memlock %s\t%s\n' "$unit" "$unit_value"
    done
}
