# shellcheck shell=sh
# Prints the ids and the access control of PCIe bridges.

tell_bridges() { # PCI-ADDRESS...
    for bridge in "$@"; do
        printf 'bridge %s\t%s %s\n' "$bridge" "$(bridge_ids "$bridge")" "$(access_control "$bridge")"
    done
}
