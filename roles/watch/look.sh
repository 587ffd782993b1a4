# shellcheck shell=sh

look_watch() { # BOOT-LINK TIMER (empty: the timer is queried only where its link exists)
    tell_link "$1"
    [ -n "$2" ] || [ -L "$1" ] || return 0
    if [ -d /run/systemd/system ]; then
        printf 'timer %s\n' "$(systemctl is-active "${1##*/}" 2> /dev/null)"
    fi
}
