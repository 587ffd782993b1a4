# shellcheck shell=sh
# How much memory units may pin. MEMLOCK_RUNTIME (units that this part restarts; containers keep running) and
# MEMLOCK_UNITS (all units without a limit) are settings. The part files writes the drop-ins; the part kubelet restarts
# the kubelet's unit, after this.

memlock_keep() { : > "$PART/restarted" && sync "$PART/restarted"; }
memlock_apply() { :; }
memlock_undo() { :; }
memlock_start() { # NEW|OLD: the drop-ins are already in place, or gone again
    if [ ! -e "$PART/touched" ]; then return; fi
    why="systemctl daemon-reload failed"
    systemctl daemon-reload || return 1
    for unit in $MEMLOCK_RUNTIME; do
        # shellcheck disable=SC2046 # three words
        set -- $(memlock_of "$unit")
        if [ "$3" = - ] || [ "$2" = "$3" ]; then continue; fi # not running, or already has its unit's limit
        park memlock "start memlock" || return 1
        why="systemctl restart $unit failed"
        systemctl restart "$unit" || return 1
    done
}
memlock_prove() { # NEW|OLD
    if [ "$1" = old ]; then return; fi
    for unit in $MEMLOCK_UNITS; do
        # shellcheck disable=SC2046 # three words
        set -- $(memlock_of "$unit")
        why="$unit has LimitMEMLOCK=$2 and its process $3, not infinity: does another drop-in say so?"
        case $2,$3 in infinity,infinity | infinity,-) ;; *) return 1 ;; esac
    done
}
memlock_by_hand() {
    for unit in $MEMLOCK_RUNTIME; do printf 'systemctl restart %s; ' "$unit"; done
}
