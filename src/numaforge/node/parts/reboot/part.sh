# shellcheck shell=sh
# The boot that makes true what only a boot can, and the one that takes it back. REBOOT_KERNEL is a setting: running
# where no other kernel may start, else any.

reboot_keep() { # the kernel that runs, the one that is expected, and the entry that starts the one that runs
    running_kernel
    printf '%s\n' "$running" > "$PART/kernel"
    printf '%s\n' "$running" > "$PART/expected"
    : > "$PART/entry"
    if find_entry is_running; then printf '%s\n' "$entry_id" > "$PART/entry"; fi
    if next_entry; then
        if is_running; then
            printf '%s\n' "$entry_id" > "$PART/entry"
        elif [ "$REBOOT_KERNEL" = any ]; then
            printf '%s\n' "$version" > "$PART/expected"
        else
            echo "the boot loader would start $entry_kernel, and $running runs" >&2
            return 1
        fi
    elif [ "$REBOOT_KERNEL" = any ]; then
        : > "$PART/expected"
    fi
    sync "$PART/kernel" "$PART/expected" "$PART/entry"
}
reboot_apply() {
    if [ -e "$FOLDER/awaits-new" ]; then reboot_prove new || return 1; fi
    if ! any_pending new; then return; fi
    if [ -e "$FOLDER/awaits-new" ]; then
        call "$each" prove new # the boot has not brought it: say what is missing
    else
        await_boot new
    fi
}
reboot_prove() { # NEW|OLD
    if ! is_other_kernel "$1"; then return; fi
    why="the kernel $running was started, not $expected"
    return 1
}
is_other_kernel() { # NEW|OLD: sets `running` and `expected`
    if [ "$1" = new ] && [ ! -e "$FOLDER/awaits-new" ]; then return 1; fi
    case $1 in new) expected=$(noted reboot/expected) ;; *) expected=$(noted reboot/kernel) ;; esac
    running_kernel
    [ -n "$expected" ] && [ "$running" != "$expected" ]
}
reboot_pending() { [ "$1" = old ] && is_other_kernel old; } # NEW|OLD
reboot_undo() { :; }                                        # what was booted is put back first: see reboot_start
reboot_start() {                                            # NEW|OLD
    if [ "$1" = new ] || ! any_pending old; then return; fi
    if is_other_kernel old && [ ! -e "$FOLDER/awaits-old" ] && [ -n "$(noted reboot/entry)" ]; then
        boot_once "$(noted reboot/entry)" || : # the proof of the kernel says what has come
    fi
    await_boot old
}
reboot_by_hand() {
    if is_other_kernel old; then printf "grub-reboot '%s'; " "$(noted reboot/entry)"; fi
    printf 'systemctl reboot; '
}
any_pending() { # NEW|OLD
    for each in $UPWARDS; do
        if provides "$each" pending && call "$each" pending "$1"; then return 0; fi
    done
    return 1
}
