# shellcheck shell=sh
# NIC settings, and the units that apply them and wait for RDMA devices at boot before the kubelet starts. `planned` has
# lines NIC NAME VALUE, `returned` those that are no longer planned, with the values before numaforge. NICS_RECORD
# (those values), NICS_LINK and GATE_LINK (of units) with NICS_TARGET and GATE_TARGET (empty: no link) are settings.

nics_keep() {
    {
        cat "$PART/planned"
        nics_each "$PART/returned" if_there # a removed card has nothing to put back
    } > "$PART/all"
    nics_show "$PART/all" > "$PART/earlier" && sync "$PART/earlier" || return 1
    if grep -q ' -$' "$PART/earlier"; then
        echo "$(grep -m 1 ' -$' "$PART/earlier"): the value cannot be told, so it could not be put back" >&2
        return 1
    fi
    keep "$FOLDER/backup" "$NICS_RECORD" && keep_link "$NICS_LINK" && keep_link "$GATE_LINK"
}
if_there() { if nic_is_there "$1" "$2"; then echo "$1 $2 $3"; fi; } # NIC NAME VALUE
nics_apply() {
    why="the values that NICs had before could not be recorded"
    nics_record || return 1
    nics_change "$PART/all"
    link_unit "$NICS_LINK" "$NICS_TARGET" && link_unit "$GATE_LINK" "$GATE_TARGET" ||
        complaints="$complaints; a unit could not be enabled"
    why=${complaints#; }
    [ -z "$complaints" ]
}
nics_record() { # before the first change: an unrecorded value is lost
    nics_new_record > "$PART/record" || return 1
    write_record "$NICS_RECORD" "what NICs had before it"
}
nics_new_record() { # existing records are older and stay; returned settings need none
    {
        sed '/^#/d' "$NICS_RECORD" 2> /dev/null
        while IFS=' ' read -r nic name value; do
            if ! grep -q "^$nic $name " "$NICS_RECORD" 2> /dev/null; then echo "$nic $name $value"; fi
        done < "$PART/earlier"
    } | while IFS=' ' read -r nic name value; do
        if ! grep -q "^$nic $name " "$PART/returned"; then echo "$nic $name $value"; fi
    done
}
nics_undo() {
    nics_change "$PART/earlier"
    put_back "$FOLDER/backup" "$NICS_RECORD" || complaints="$complaints; $NICS_RECORD could not be put back"
    link_unit_back "$NICS_LINK" && link_unit_back "$GATE_LINK" ||
        complaints="$complaints; a unit's link could not be put back"
    if [ -z "$complaints" ]; then return; fi
    why="not every NIC has what it had: ${complaints#; }"
    return 2
}
nics_by_hand() { nics_each "$PART/earlier" nic_by_hand; }
nic_by_hand() { # NIC NAME VALUE
    if [ "$(nic_value "$1" "$2")" != "$3" ]; then printf "set %s of '%s' to %s; " "$2" "$1" "$3"; fi
}
