# shellcheck shell=sh
# The timer of the node's watch. WATCH_LINK (the timer's below timers.target.wants), WATCH_LINK_TARGET (empty: the node
# is not watched), WATCH_LEAVES (yes: the earlier metrics and condition must go), WATCH_CONF, WATCH_SCRIPT and
# WATCH_UNIT (the service) are settings. The watch's reports are removed with it: a metric that stayed would be wrong.

watch_keep() { # keeps the program: it is gone by the time that its reports are removed
    keep_link "$WATCH_LINK"
    systemctl is-active "${WATCH_LINK##*/}" > "$PART/timer" 2> /dev/null || :
    if [ -e "$WATCH_CONF" ] && [ -e "$WATCH_SCRIPT" ]; then
        cp "$WATCH_CONF" "$PART/watch.conf" && cp "$WATCH_SCRIPT" "$PART/watch.sh"
    fi
}
watch_ran() { [ "$(cat "$PART/timer")" = active ]; }
watch_stop() { # NEW|OLD: an unknown unit counts as stopped
    has_systemd || return 0
    systemctl stop "${WATCH_LINK##*/}" "$WATCH_UNIT" 2> /dev/null || :
}
watch_apply() {
    if [ -n "$WATCH_LEAVES" ] && [ -e "$PART/watch.sh" ]; then
        why="the metrics of before could not be removed"
        sh "$PART/watch.sh" forget "$PART/watch.conf" || return 1
    fi
    why="$WATCH_LINK could not be written"
    link_unit "$WATCH_LINK" "$WATCH_LINK_TARGET" && watch_wants_nothing
}
watch_wants_nothing() { rmdir "${WATCH_LINK%/*}" 2> /dev/null || :; } # a folder without links has no effect
watch_start() { # NEW|OLD
    has_systemd || return 0
    case $1 in
    new) [ -n "$WATCH_LINK_TARGET" ] || return 0 ;;
    *) watch_ran || return 0 ;;
    esac
    why="systemctl start ${WATCH_LINK##*/} failed"
    systemctl start "${WATCH_LINK##*/}"
}
watch_commit() { # the first metrics, at once; what fails here fails again a minute later, in the journal
    [ -z "$WATCH_LINK_TARGET" ] || sh "$WATCH_SCRIPT" watch "$WATCH_CONF" anyway || :
}
watch_undo() { # while the files of the change still exist
    if [ -e "$WATCH_CONF" ] && [ -e "$WATCH_SCRIPT" ]; then sh "$WATCH_SCRIPT" forget "$WATCH_CONF" || :; fi
    why="$WATCH_LINK could not be put back"
    link_unit_back "$WATCH_LINK" && watch_wants_nothing || return 2
    why="the metrics of before could not be written"
    if [ ! -e "$PART/watch.sh" ]; then return; fi
    sh "$PART/watch.sh" watch "$PART/watch.conf" anyway || return 2
}
