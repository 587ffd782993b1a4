# shellcheck shell=sh
# The boot that puts changes of other parts into effect, and the one that undoes them. REBOOT_KERNEL is a setting:
# running where no other kernel may start, else any.

reboot_keep() { # the running kernel, and the expected one
    running_kernel
    expected=$running
    if ! next_entry; then
        if [ "$REBOOT_KERNEL" = any ]; then expected=; fi
    elif ! is_running; then
        expected=$version
        if [ "$REBOOT_KERNEL" != any ]; then
            echo "the boot loader would start $entry_kernel, and $running runs" >&2
            return 1
        fi
    fi
    printf '%s\n' "$running" > "$PART/kernel" && printf '%s\n' "$expected" > "$PART/expected" &&
        sync "$PART/kernel" "$PART/expected"
}
reboot_apply() {
    if [ -e "$FOLDER/awaits-new" ]; then reboot_prove new || return 1; fi
    waiting=$(pending_part new)
    if [ -z "$waiting" ]; then
        return
    elif [ -e "$FOLDER/awaits-new" ]; then
        call "$waiting" prove new # the boot has not put it into effect: say what is missing
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
    if [ "$1" = new ] || [ -z "$(pending_part old)" ]; then return; fi
    if is_other_kernel old && [ ! -e "$FOLDER/awaits-old" ] && find_entry is_of_version "$expected"; then
        boot_once "$entry_id" || : # the proof reports which kernel has started
    fi
    await_boot old
}
is_of_version() { # VERSION
    kernel_version "$entry_kernel"
    [ "$version" = "$1" ]
}
reboot_by_hand() {
    if is_other_kernel old && find_entry is_of_version "$expected"; then printf "grub-reboot '%s'; " "$entry_id"; fi
    printf 'systemctl reboot; '
}
