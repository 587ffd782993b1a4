# shellcheck shell=sh
# The timer of the node's watch. WATCH_LINK (the timer's below timers.target.wants), WATCH_LINK_TARGET (empty: the
# node is not watched), WATCH_LEAVES (yes: metrics and condition of before have to go), WATCH_CONF, WATCH_SCRIPT and WATCH_UNIT (the
# service) are settings. What is told of the node goes with what told it: a metric that stays would lie.

watch_keep() { # the program that takes back what it has told is gone when that is needed
    keep_link "$WATCH_LINK"
    systemctl is-active "${WATCH_LINK##*/}" > "$PART/timer" 2> /dev/null || :
    if [ -e "$WATCH_CONF" ] && [ -e "$WATCH_SCRIPT" ]; then
        cp "$WATCH_CONF" "$PART/watch.conf" && cp "$WATCH_SCRIPT" "$PART/watch.sh"
    fi
}
watch_ran() { [ "$(cat "$PART/timer")" = active ]; }
watch_stop() { # NEW|OLD: a unit that is not known is stopped
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
watch_wants_nothing() { rmdir "${WATCH_LINK%/*}" 2> /dev/null || :; } # a folder without links means nothing
watch_start() { # NEW|OLD
    has_systemd || return 0
    case $1 in
    new) [ -n "$WATCH_LINK_TARGET" ] || return 0 ;;
    *) watch_ran || return 0 ;;
    esac
    why="systemctl start ${WATCH_LINK##*/} failed"
    systemctl start "${WATCH_LINK##*/}"
}
watch_commit() { # the first metrics, before anything asks for them; what fails here fails a minute later, in the journal
    [ -z "$WATCH_LINK_TARGET" ] || sh "$WATCH_SCRIPT" watch "$WATCH_CONF" anyway || :
}
watch_undo() { # while the files of the change are there still
    if [ -e "$WATCH_CONF" ] && [ -e "$WATCH_SCRIPT" ]; then sh "$WATCH_SCRIPT" forget "$WATCH_CONF" || :; fi
    why="$WATCH_LINK could not be put back"
    link_unit_back "$WATCH_LINK" && watch_wants_nothing || return 2
    why="the metrics of before could not be written"
    if [ ! -e "$PART/watch.sh" ]; then return; fi
    sh "$PART/watch.sh" watch "$PART/watch.conf" anyway || return 2
}
