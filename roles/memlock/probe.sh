# shellcheck shell=sh
# What units may pin.

tell_memlock() { # UNIT...
    for unit in "$@"; do
        printf 'memlock %s\t%s\n' "$unit" "$(unit_says "$unit" LimitMEMLOCK)"
    done
}
