# shellcheck shell=sh

look_watch() { # BOOT-LINK TIMER (empty: it is asked about only where it may run)
    tell_link "$1"
    [ -n "$2" ] || [ -L "$1" ] || return 0
    if [ -d /run/systemd/system ]; then
        printf 'timer %s\n' "$(systemctl is-active "${1##*/}" 2> /dev/null)"
    fi
}
