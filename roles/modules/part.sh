# shellcheck shell=sh
# Kernel modules. `load` has one per line, `unload` those that numaforge has loaded and this plan does not want, `late`
# the changes that need a boot: "option MODULE NAME VALUE", "blocked MODULE", and for an earlier plan's settings that go
# "unset MODULE NAME", "freed MODULE". `taken` has options, as in `late`, of modules that are loaded now; `vital` the
# modules that the node stood on at the look. MODULES_RECORD (which modules numaforge has loaded), SSH_PORT and
# RDMA_NETNS (shared, exclusive; empty: unchanged) are settings. Modules are unloaded by rmmod: modprobe -r also removes
# dependencies that nothing counts as in use, and a driver's interfaces do not count as a use.

modules_keep() {
    keep "$FOLDER/backup" "$MODULES_RECORD" && kernel_boot_id > "$PART/boot" || return 1
    : > "$PART/ours"
    while IFS= read -r name <&3; do
        dependencies "$name" | while IFS= read -r module; do
            if ! is_loaded "$module" && ! grep -qxF "$module" "$PART/ours"; then echo "$module" >> "$PART/ours"; fi
        done
    done 3< "$PART/load"
    while read -r kind name rest <&3; do
        printf '%s %s\n' "$(modules_late "$kind" "$name" "$rest")" "$kind $name $rest"
    done 3< "$PART/late" > "$PART/before"
    parameter ib_core netns_mode > "$PART/netns"
    sync "$PART/boot" "$PART/ours" "$PART/before" "$PART/netns"
}
modules_late() { # KIND MODULE REST: its present state, in one word
    case $1 in
    option | unset) parameter "$2" "${3%% *}" | tr -d '[:space:]' ;;
    blocked | freed) if is_loaded "$2"; then echo loaded; fi ;;
    esac | grep . || echo -
}
modules_apply() {
    while IFS= read -r name <&3; do
        if ! told=$(modprobe "$name" 2>&1) || ! is_loaded "$name"; then
            why="the module $name could not be loaded${told:+: $told}"
            return 1
        fi
    done 3< "$PART/load"
    modules_take_out "$PART/unload"
    why="which modules numaforge has loaded could not be recorded"
    modules_record || return 1
    if [ -n "$RDMA_NETNS" ]; then
        why="the RDMA subsystem's mode could not be changed to $RDMA_NETNS"
        rdma system set netns "$RDMA_NETNS"
    fi
}
modules_record() {
    { cat "$MODULES_RECORD" 2> /dev/null; cat "$PART/ours"; } | sed '/^#/d' | while IFS= read -r name; do
        grep -qxF "$name" "$PART/unload" || echo "$name"
    done > "$PART/record"
    write_record "$MODULES_RECORD" "the modules that it has loaded"
}
modules_take_out() { # FILE: unload its modules, last first; one that cannot go is noted, and stays until a boot
    vital=$(cat "$PART/vital"; stands_on)
    # shellcheck disable=SC2013 # a name is a word
    for name in $(sed '1!G;h;$!d' "$1"); do
        if ! is_loaded "$name"; then continue; fi
        case "
$vital" in
        *"
$name "*) told="the node depends on it" ;;
        *) told=$(rmmod "$name" 2>&1) ;;
        esac
        if is_loaded "$name"; then printf '%s (%s)\n' "$name" "$told" >> "$PART/stays"; fi
    done
}
modules_notes() {
    if [ ! -e "$PART/stays" ]; then return; fi
    sort -u "$PART/stays" | while IFS= read -r line; do printf '; the module %s stays loaded until a boot' "$line"; done
}
modules_undo() {
    # The current boot may have read the files before they are put back.
    [ -e "$PART/undone-in" ] || kernel_boot_id > "$PART/undone-in"
    if [ -n "$RDMA_NETNS" ]; then
        case $(cat "$PART/netns") in
        Y) rdma system set netns shared ;;
        N) rdma system set netns exclusive ;;
        esac || printf 'ib_core (netns_mode is not what it was)\n' >> "$PART/stays"
    fi
    modules_take_out "$PART/ours"
    why="$MODULES_RECORD could not be put back"
    put_back "$FOLDER/backup" "$MODULES_RECORD"
}
modules_start() { # NEW|OLD: load again with the earlier options, which are back by now
    if [ "$1" = new ] || [ ! -e "$PART/touched" ]; then return 0; fi
    while IFS= read -r name; do
        if ! is_loaded "$name"; then modprobe "$name" || echo "$name (could not be loaded again)" >> "$PART/stays"; fi
    done < "$PART/unload" 2> /dev/null
}
modules_prove() { # NEW|OLD
    if [ "$1" = new ]; then
        while IFS= read -r name; do
            why="the module $name is not loaded"
            is_loaded "$name" || return 1
        done < "$PART/load"
        while read -r _ name rest; do
            now=$(modules_late option "$name" "$rest")
            why="the module $name has ${rest%% *}=$now, not ${rest#* }"
            same_parameter "$now" "${rest#* }" || return 1
        done < "$PART/taken"
    fi
    if ! modules_pending "$1"; then return; fi
    why="$pending; is the initial RAM disk older than /etc/modprobe.d (update-initramfs -u, dracut -f)?"
    return 1
}
modules_pending() { # NEW|OLD: sets `pending` to what still needs a boot
    pending=
    if [ ! -s "$PART/before" ]; then return 1; fi
    if [ "$1" = new ] && [ "$(cat "$PART/boot")" = "$(kernel_boot_id)" ]; then
        pending="no boot has read what modprobe is told"
    elif [ "$1" = old ] && [ "$(cat "$PART/boot")" != "$(kernel_boot_id)" ] &&
        [ "$(cat "$PART/undone-in" 2> /dev/null)" = "$(kernel_boot_id)" ]; then
        pending="this boot has read what modprobe is no longer told"
    fi
    if [ -n "$pending" ]; then return; fi
    while read -r was kind name rest <&3; do
        now=$(modules_late "$kind" "$name" "$rest")
        if [ "$kind" = unset ] || [ "$kind" = freed ]; then
            continue # without our setting, its state is up to the host
        elif [ "$1" = old ]; then
            if [ "$now" != "$was" ]; then pending="the module $name is not as it was"; fi
        elif [ "$kind" = blocked ]; then
            if [ "$now" = loaded ]; then pending="the module $name is still loaded"; fi
        elif ! same_parameter "$now" "${rest#* }"; then
            pending="the module $name has ${rest%% *}=$now, not ${rest#* }"
        fi
    done 3< "$PART/before"
    [ -n "$pending" ]
}
same_parameter() { # ONE OTHER: the kernel writes a boolean as Y or N
    case $1,$2 in
    "$2,$1") return 0 ;;
    [Yy1],[Yy1] | [Nn0],[Nn0] | -,*) return 0 ;;
    *) return 1 ;;
    esac
}
modules_by_hand() {
    if modules_pending old; then printf 'systemctl reboot; '; fi
}
