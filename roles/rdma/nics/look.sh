# shellcheck shell=sh

look_nics() { # RECORD LINK LINK NIC NAME...
    tell_record recorded "$1"
    for link in "$2" "$3"; do if [ -L "$link" ]; then echo "enabled $link"; fi; done
    shift 3
    while [ "$#" -gt 1 ]; do
        if nic_is_there "$1" "$2"; then tell_first_line value "$(show_nic "$1" "$2")"; fi
        if [ "$2" = channels ]; then channels "$1" | sed -n "s/^most /most $1 channels /p"; fi
        shift 2
    done
}
