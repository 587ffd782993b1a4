# shellcheck shell=sh
# Who runs IMEX. `keys` has lines KEY=VALUE for the package's config.cfg, whose other keys stay; `nodes` an address a
# line. IMEX_MODE (driver-managed, host-managed, bare; empty: as the record has it), IMEX_UNIT, IMEX_CONFIG, IMEX_NODES,
# IMEX_SOCKET (empty: it takes no commands), IMEX_SECONDS and IMEX_RECORD are settings. The record has what was there
# before numaforge: "unit STATE", "key KEY=VALUE", "absent KEY", "node ADDRESS".

imex_mask() { echo "/etc/systemd/system/$IMEX_UNIT"; }
imex_want() { echo "/etc/systemd/system/multi-user.target.wants/$IMEX_UNIT"; }
imex_keep() {
    if imex_daemons | grep -q '^pod-daemon'; then
        echo "a ComputeDomain is alive here: the DRA driver's daemon runs in a pod" >&2
        return 1
    fi
    held=$(imex_holders | tr '\n' ' ')
    if [ -n "$held" ]; then
        echo "IMEX channels are in use by the processes $held" >&2
        return 1
    fi
    # the link that masks has the name of the one that enables
    readlink "$(imex_mask)" > "$PART/mask.link" || : > "$PART/mask.link"
    keep_link "$(imex_want)"
    if systemctl is-active "$IMEX_UNIT" > /dev/null 2>&1; then echo active; else echo inactive; fi > "$PART/before"
    keep "$FOLDER/backup" "$IMEX_CONFIG" && keep "$FOLDER/backup" "$IMEX_NODES" &&
        keep "$FOLDER/backup" "$IMEX_RECORD" && sync "$PART/before" "$PART/mask.link"
}
imex_stop() { # NEW|OLD
    why="systemctl stop $IMEX_UNIT failed"
    if systemctl is-active "$IMEX_UNIT" > /dev/null 2>&1; then systemctl stop "$IMEX_UNIT"; fi
}
imex_apply() {
    why="what IMEX had before could not be recorded"
    imex_record || return 1
    why="$IMEX_CONFIG or $IMEX_NODES could not be written"
    if [ -n "$IMEX_MODE" ]; then imex_write || return 1; else imex_write_back || return 1; fi
    why="$IMEX_UNIT could not be $(imex_wanted)"
    imex_link "$(imex_wanted)" || return 1
    if [ -n "$IMEX_MODE" ]; then return; fi
    why="$IMEX_RECORD could not be removed"
    remove "$IMEX_RECORD"
}
imex_wanted() { # the state of the unit
    case $IMEX_MODE in
    driver-managed) echo masked ;;
    '') sed -n 's/^unit //p' "$FOLDER/backup$IMEX_RECORD" ;;
    *) echo enabled ;;
    esac
}
imex_record() { # before the first change; what is there already is older
    if [ -z "$IMEX_MODE" ]; then return; fi
    {
        sed '/^#/d' "$IMEX_RECORD" 2> /dev/null
        if [ ! -e "$IMEX_RECORD" ]; then
            echo "unit $(imex_unit_state)"
            sed -n 's/[[:space:]]//g; /^[^#]/s/^/node /p' "$IMEX_NODES" 2> /dev/null
        fi
        while IFS='=' read -r key _ <&3; do
            if grep -q "^key $key=\|^absent $key\$" "$IMEX_RECORD" 2> /dev/null; then continue; fi
            if value=$(imex_value "$IMEX_CONFIG" "$key"); then echo "key $key=$value"; else echo "absent $key"; fi
        done 3< "$PART/keys"
    } > "$PART/record"
    write_record "$IMEX_RECORD" "what IMEX had before it"
}
imex_write() {
    if [ "$IMEX_MODE" = driver-managed ]; then return; fi
    imex_set "$PART/keys" "" && imex_place "$IMEX_NODES" < "$PART/nodes"
}
imex_write_back() {
    old=$FOLDER/backup$IMEX_RECORD
    sed -n 's/^key //p' "$old" > "$PART/old-keys"
    imex_set "$PART/old-keys" "$(sed -n 's/^absent //p' "$old" | tr '\n' ' ')" || return 1
    sed -n 's/^node //p' "$old" > "$PART/old-nodes"
    imex_place "$IMEX_NODES" < "$PART/old-nodes"
}
imex_set() { # KEYS ABSENT: of each key one line, where its first one was; what is there else stays
    awk -v absent="$2" '
        BEGIN { count = split(absent, names, " "); for (i = 1; i <= count; i++) gone[names[i]] = 1 }
        FNR == NR { key = $0; sub(/=.*/, "", key); wanted[key] = $0; order[++keys] = key; next }
        /^[[:space:]]*[A-Z_0-9]+[[:space:]]*=/ {
            key = $0; sub(/=.*/, "", key); gsub(/[[:space:]]/, "", key)
            if (key in gone) next
            if (key in wanted) { if (!(key in written)) print wanted[key]; written[key] = 1; next }
        }
        { print }
        END { for (i = 1; i <= keys; i++) if (!(order[i] in written)) print wanted[order[i]] }
    ' "$1" "$(imex_config_there)" > "$PART/config" && imex_place "$IMEX_CONFIG" < "$PART/config"
}
imex_config_there() { if [ -e "$IMEX_CONFIG" ]; then echo "$IMEX_CONFIG"; else echo /dev/null; fi; }
imex_place() { # PATH, its text on stdin
    base64 | stage imex "$1" 0644 root root && place imex "$1"
}
imex_link() { # STATE
    mask=$(imex_mask)
    if [ "$(readlink "$mask")" = /dev/null ]; then rm -f "$mask" || return 1; fi
    rm -f "$(imex_want)" || return 1
    case $1 in
    masked) ln -sfn /dev/null "$mask" ;;
    enabled) link_unit "$(imex_want)" "$(imex_unit_file)" ;;
    esac && sync /etc/systemd/system/
}
imex_unit_file() { # where the package has it
    for folder in /etc/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
        if [ -f "$folder/$IMEX_UNIT" ]; then echo "$folder/$IMEX_UNIT" && return; fi
    done
    echo "/usr/lib/systemd/system/$IMEX_UNIT"
}
imex_start() { # NEW|OLD
    if [ -e "$PART/touched" ]; then
        why="systemctl daemon-reload failed"
        systemctl daemon-reload || return 1 # the node is drained: no container has GPUs to lose
    fi
    if ! imex_runs "$1"; then return; fi
    why="systemctl start $IMEX_UNIT failed: journalctl -u $IMEX_UNIT says why"
    systemctl start "$IMEX_UNIT"
}
imex_runs() { # NEW|OLD: whether the unit has to run
    case $1,$IMEX_MODE in
    new,host-managed | new,bare) return 0 ;;
    new,) [ "$(imex_wanted)" = enabled ] ;;
    new,*) return 1 ;;
    *) [ "$(cat "$PART/before")" = active ] ;;
    esac
}
imex_prove() { # NEW|OLD
    if imex_runs "$1"; then
        why="$IMEX_UNIT does not run: journalctl -u $IMEX_UNIT says why"
        systemctl is-active "$IMEX_UNIT" > /dev/null || return 1
        if [ "$1" = old ]; then return; fi
        imex_ready
        return
    fi
    if [ "$1" = old ] || [ "$IMEX_MODE" != driver-managed ]; then return; fi
    why="$IMEX_UNIT is $(imex_unit_state), not masked"
    [ "$(imex_unit_state)" = masked ] || return 1
    why="an nvidia-imex runs on the host, outside of its unit"
    ! imex_daemons | grep -q '^host-daemon'
}
imex_ready() { # as the DRA driver asks
    if [ -z "$IMEX_SOCKET" ] || ! command -v nvidia-imex-ctl > /dev/null 2>&1; then return; fi
    tries=$((IMEX_SECONDS * 2))
    while :; do
        state=$(nvidia-imex-ctl -q "--u=$IMEX_SOCKET" 2> /dev/null | tail -n 1)
        if [ "$state" = READY ]; then return; fi
        why="$IMEX_UNIT has ended: journalctl -u $IMEX_UNIT says why"
        systemctl is-active "$IMEX_UNIT" > /dev/null || return 1
        why="nvidia-imex-ctl says ${state:-nothing} on $IMEX_SOCKET, not READY"
        tries=$((tries - 1))
        if [ "$tries" -le 0 ]; then return 1; fi
        pause
    done
}
imex_undo() {
    why="what IMEX had could not be put back"
    take_back_once imex_each_file take_back || return 1
    link_unit "$(imex_want)" "$(cat "$PART/$IMEX_UNIT.link")" || return 1
    imex_mask_back
}
imex_each_file() { for path in "$IMEX_CONFIG" "$IMEX_NODES" "$IMEX_RECORD"; do "$1" "$path"; done; }
imex_mask_back() {
    mask=$(imex_mask)
    if [ -s "$PART/mask.link" ]; then
        link_unit "$mask" "$(cat "$PART/mask.link")"
    elif [ -L "$mask" ]; then
        rm -f "$mask"
    fi
}
imex_by_hand() {
    if [ -e "$PART/stuck" ]; then stuck_by_hand; fi
    printf 'systemctl daemon-reload; '
    if [ "$(cat "$PART/before")" = active ]; then printf 'systemctl restart %s; ' "$IMEX_UNIT"; fi
}
