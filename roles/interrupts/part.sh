# shellcheck shell=sh
# Interrupts, packet steering and workqueues (affinity.sh), irqbalance, and the unit that sets them at every boot.
# `planned` is the configuration. `banned` is the new end of irqbalance's environment file, from the line BLOCK_BEGIN to
# BLOCK_END. Settings: IRQBALANCE_FILE (empty: it stays), IRQBALANCE_VERB (restart, stop, start or nothing),
# INTERRUPTS_LINK and INTERRUPTS_LINK_TARGET (empty: remove the link).

interrupts_keep() {
    kernel_boot_id > "$PART/boot" || return 1
    affinity_folder && cp "$AFFINITY/earlier" "$PART/record" || return 1
    {
        affinity_targets < "$PART/planned"
        cat "$PART/record"
    } | cut -f 1 | LC_ALL=C sort -u > "$PART/paths"
    while IFS= read -r path; do
        if affinity_now "$path" 2> /dev/null; then printf '%s\t%s\n' "$path" "$now"; fi
    done < "$PART/paths" > "$PART/earlier"
    systemctl is-active irqbalance.service > "$PART/irqbalance" 2> /dev/null || :
    if [ -n "$IRQBALANCE_FILE" ]; then keep "$FOLDER/backup" "$IRQBALANCE_FILE" || return 1; fi
    keep_link "$INTERRUPTS_LINK"
}
interrupts_apply() {
    if [ -n "$IRQBALANCE_FILE" ]; then
        why="$IRQBALANCE_FILE could not be written"
        irqbalance_block || return 1
    fi
    if [ "$IRQBALANCE_VERB" = stop ]; then irqbalance_unit stop || return 1; fi
    why="the interrupts could not be set"
    interrupts_set || return 1
    case $IRQBALANCE_VERB in start | restart) irqbalance_unit "$IRQBALANCE_VERB" || return 1 ;; esac
    why="$INTERRUPTS_LINK could not be written"
    link_unit "$INTERRUPTS_LINK" "$INTERRUPTS_LINK_TARGET"
}
interrupts_set() {
    affinity_apply "$PART/planned" || {
        why="$(paste -s -d ';' "$AFFINITY/refused")"
        return 1
    }
}
irqbalance_unit() { # VERB
    why="systemctl $1 irqbalance.service failed"
    systemctl "$1" irqbalance.service
}
irqbalance_block() { # keeps the admin's lines; systemd uses the last assignment of a variable
    temporary new "$IRQBALANCE_FILE" || return 1
    if [ -e "$target" ]; then cp -a "$target" "$new"; else mkdir -p "${target%/*}" && : > "$new"; fi || return 1
    {
        sed "/^$BLOCK_BEGIN\$/,/^$BLOCK_END\$/d" "$target" 2> /dev/null
        cat "$PART/banned"
    } > "$new" || return 1
    { if [ -s "$new" ]; then content "$new"; else echo absent; fi; } > "$PART/written" && sync "$PART/written" || return 1
    irqbalance_place
}
irqbalance_place() { # place the staged file, or remove the target where that is empty
    temporary new "$IRQBALANCE_FILE" || return 1
    if [ -s "$new" ]; then
        sync "$new" && place new "$IRQBALANCE_FILE"
    else
        rm -f "$new" && remove "$IRQBALANCE_FILE"
    fi
}
irqbalance_block_back() { # restore the kept file; if it was edited since, only the lines between the marks
    temporary new "$IRQBALANCE_FILE" || return 1
    now=$(content "$target")
    if [ "$now" = "$(cat "$PART/written")" ]; then
        put_back "$FOLDER/backup" "$IRQBALANCE_FILE"
        return
    elif [ "$now" = absent ] || [ "$now" = "$(content "$FOLDER/backup$IRQBALANCE_FILE")" ]; then
        return
    fi
    cp -a "$target" "$new" && {
        sed "/^$BLOCK_BEGIN\$/,/^$BLOCK_END\$/d" "$target"
        sed -n "/^$BLOCK_BEGIN\$/,/^$BLOCK_END\$/p" "$FOLDER/backup$IRQBALANCE_FILE" 2> /dev/null || : # there was none
    } > "$new" && irqbalance_place
}
# Interrupts of drivers loaded since, such as after a boot, are set now; the unit sets those of later ones.
interrupts_prove() { # NEW|OLD
    if [ "$1" = old ]; then
        why="irqbalance.service does not run, as it did before"
        ! irqbalance_ran || systemctl is-active irqbalance.service > /dev/null
        return
    fi
    interrupts_set || return 1
    differ=$(affinity_differences < "$PART/planned")
    if [ -z "$differ" ]; then return; fi
    why="not where they should be (file, CPUs now, CPUs wanted, of what): $(printf '%s\n' "$differ" | head -n 3 | tr "$TAB$NEWLINE" ' ;')"
    return 1
}
interrupts_notes() {
    [ -s "$AFFINITY/managed" ] || return 0
    printf '; %s interrupts are placed by the kernel alone (managed)' "$(grep -c '' "$AFFINITY/managed")"
}
interrupts_undo() {
    amiss_here=
    if [ "$(cat "$PART/boot")" = "$(kernel_boot_id)" ]; then interrupts_take_back; fi
    if [ -n "$IRQBALANCE_FILE" ] && [ -e "$PART/written" ] && ! irqbalance_block_back; then
        amiss_here="$amiss_here$IRQBALANCE_FILE could not be put back; "
    fi
    if [ -n "$IRQBALANCE_VERB" ] && ! irqbalance_ran && ! systemctl stop irqbalance.service; then
        amiss_here="${amiss_here}irqbalance.service is not as it was; "
    fi
    link_unit_back "$INTERRUPTS_LINK" || amiss_here="$amiss_here$INTERRUPTS_LINK could not be put back; "
    if [ -z "$amiss_here" ]; then return; fi
    why="not everything answers interrupts as it did: ${amiss_here%; }"
    return 2
}
irqbalance_ran() { [ -n "$IRQBALANCE_VERB" ] && [ "$(cat "$PART/irqbalance")" = active ]; }
# The drop-in that keeps irqbalance from starting is a file: it is undone after this part, before units start again.
interrupts_start() { # NEW|OLD
    if [ "$1" = old ] && [ -e "$PART/touched" ] && irqbalance_ran; then systemctl restart irqbalance.service || :; fi
}
interrupts_take_back() { # only in the same boot: interrupt numbers change with a boot
    : > "$AFFINITY/refused"
    interrupts_differing affinity_write
    cp "$PART/record" "$AFFINITY/earlier"
    if [ -s "$AFFINITY/refused" ]; then amiss_here="$(paste -s -d ';' "$AFFINITY/refused"); "; fi
}
interrupts_by_hand() {
    if [ "$(cat "$PART/boot")" = "$(kernel_boot_id)" ]; then interrupts_differing interrupt_by_hand; fi
}
interrupt_by_hand() { printf "echo %s > '%s'; " "$2" "$1"; }
interrupts_differing() { # COMMAND: run it with PATH and earlier CPUS of what has changed
    while IFS=$TAB read -r path cpus <&3; do
        affinity_now "$path" 2> /dev/null || continue
        # shellcheck disable=SC2031 # affinity_differences reads in a pipe
        if [ "$now" != "$cpus" ]; then "$1" "$path" "$cpus" 3<&-; fi
    done 3< "$PART/earlier"
}
