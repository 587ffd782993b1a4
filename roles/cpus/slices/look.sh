# shellcheck shell=sh

look_system() { # RECORD SLICE...
    tell_record recorded "$1"
    shift
    for slice; do
        unit_says "$slice" AllowedCPUs
        printf 'allowed %s %s\n' "$slice" "$unit_value"
    done
}
