# shellcheck shell=sh
# The present NIC settings.

tell_nics() { # SCRIPT FILE
    sh "$1" show "$2" | while read -r nic name now; do printf 'nic %s-%s\t%s\n' "$nic" "$name" "$now"; done
}
