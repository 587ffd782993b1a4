# shellcheck shell=sh

tell_watch() { # METRICS
    if [ -e "$1" ]; then printf 'watch %s\t%s\n' "$1" "$(($(date +%s) - $(stat -c %Y "$1")))"; fi
}
