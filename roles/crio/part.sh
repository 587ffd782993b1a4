# shellcheck shell=sh
# Restarts CRI-O, which reads its drop-in only when it starts; containers keep running meanwhile. Settings:
# CRIO_UNIT, and CRIO_HANDLER (empty: the handler must be gone).

crio_keep() { systemctl is-active "$CRIO_UNIT" > "$PART/before" 2> /dev/null || :; }
crio_apply() { :; }
crio_undo() { :; }
crio_start() { # NEW|OLD: the drop-in is there, or gone again, by now
    if [ ! -e "$PART/touched" ] || ! crio_ran; then return; fi
    park crio "start crio" || return 1
    why="systemctl restart $CRIO_UNIT failed"
    systemctl restart "$CRIO_UNIT"
}
crio_ran() { [ "$(cat "$PART/before")" = active ]; }
crio_prove() { # NEW|OLD
    if ! crio_ran; then return; fi
    why="$CRIO_UNIT does not run any more"
    systemctl is-active "$CRIO_UNIT" > /dev/null || return 1
    # CRI-O leaves out a handler that it cannot use, with a line in its log.
    if [ "$1" = old ] || [ -z "$CRIO_HANDLER" ] || ! crio status config > "$PART/running" 2> /dev/null; then return; fi
    why="$CRIO_UNIT has no runtime handler $CRIO_HANDLER although its drop-in names it: journalctl -u $CRIO_UNIT says why"
    grep -q "^ *\[crio\.runtime\.runtimes\.\"\{0,1\}$CRIO_HANDLER\"\{0,1\}\]" "$PART/running"
}
crio_by_hand() { printf 'systemctl restart %s; ' "$CRIO_UNIT"; }
