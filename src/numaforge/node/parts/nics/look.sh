# shellcheck shell=sh

look_nics() { # RECORD LINK LINK NIC NAME...
    sed -n 's/^\([^#]\)/recorded \1/p' "$1" 2> /dev/null
    for link in "$2" "$3"; do if [ -L "$link" ]; then echo "enabled $link"; fi; done
    shift 3
    while [ "$#" -gt 1 ]; do
        if nic_is_there "$1" "$2"; then echo "value $(show_nic "$1" "$2")"; fi
        if [ "$2" = channels ]; then channels "$1" | sed -n "s/^most /most $1 channels /p"; fi
        shift 2
    done
}
