# shellcheck shell=sh
# What bridges control.

tell_bridges() { # PCI-ADDRESS...
    for bridge in "$@"; do
        printf 'bridge %s\t%s %s\n' "$bridge" "$(bridge_ids "$bridge")" "$(access_control "$bridge")"
    done
}
