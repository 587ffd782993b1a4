# shellcheck shell=sh

look_watch() { # BOOT-LINK TIMER, which is asked about where it may run or has to
    tell_link "$1"
    if [ -n "$2" ] || [ -L "$1" ]; then
        printf 'timer %s\n' "$(systemctl is-active "${1##*/}" 2> /dev/null)"
    fi
}
