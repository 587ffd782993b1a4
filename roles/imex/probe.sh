# shellcheck shell=sh
# Who runs IMEX, and with which nodes; whether its daemon is ready where it takes commands.

tell_imex() { # NODES SOCKET; the socket may be empty
    printf 'imex unit\t%s\n' "$(imex_unit_state)"
    unit_says nvidia-imex.service ActiveState
    if [ "$unit_value" = active ]; then state=active; else state=inactive; fi
    printf 'imex runs\t%s\n' "$state"
    printf 'imex nodes\t%s\n' "$(sed 's/[[:space:]]//g; /^$/d; /^#/d' "$1" 2> /dev/null | tr '\n' ' ')"
    if [ -n "$2" ] && command -v nvidia-imex-ctl > /dev/null 2>&1; then
        printf 'imex ready\t%s\n' "$(nvidia-imex-ctl -q "--u=$2" 2> /dev/null | tail -n 1)"
    fi
}
