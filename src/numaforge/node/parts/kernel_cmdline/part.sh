# shellcheck shell=sh
# Parameters of the kernel's command line. `planned` has one a line, `removed` those that an earlier plan has
# added and this one has not, `restored` what grubby has to put back of these. CMDLINE_RECORD (which parameters are
# ours) and CMDLINE_DROP_IN are settings.
# Debian and Ubuntu read drop-ins of /etc/default/grub.d, RHEL and its kin have grubby.

kernel_cmdline_files() { # what changes on a disk, and is put back from a copy
    printf '%s\n' "$CMDLINE_RECORD"
    if [ "$CMDLINE_LOADER" = grub ]; then
        printf '%s\n' "$CMDLINE_DROP_IN" /boot/grub/grub.cfg
        return
    fi
    printf '%s\n' /etc/default/grub /etc/kernel/cmdline /boot/grub2/grubenv /boot/grub2/grub.cfg
    for entry in /boot/loader/entries/*.conf; do printf '%s\n' "$entry"; done
}
kernel_cmdline_keep() {
    kernel_cmdline_files > "$PART/files"
    while IFS= read -r path <&3; do keep "$FOLDER/backup" "$path" || return 1; done 3< "$PART/files"
    cp /proc/cmdline "$PART/before" && sync "$PART/before"
}
kernel_cmdline_apply() {
    why="the kernel's command line could not be written"
    {
        echo "# Written by numaforge: what it has added to the kernel's command line."
        cat "$PART/planned"
    } | kernel_cmdline_write "$CMDLINE_RECORD" || return 1
    "kernel_cmdline_by_$CMDLINE_LOADER" > "$PART/output" 2>&1 || {
        why="$why: $(tail -n 1 "$PART/output")"
        return 1
    }
    sync
}
kernel_cmdline_write() { base64 | stage new "$1" 0644 root root && place new "$1"; } # PATH, content on stdin
kernel_cmdline_by_grub() {
    {
        echo "# Written by numaforge."
        # shellcheck disable=SC2016 # GRUB's shell expands it; no parameter holds a quote, a dollar or a backslash
        printf 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT %s"\n' \
            "$(kernel_cmdline_quoted "$PART/planned" | sed 's/"/\\"/g')"
    } | kernel_cmdline_write "$CMDLINE_DROP_IN" && update-grub
}
kernel_cmdline_quoted() { # FILE: in one line; GRUB ends a command at a bare ";", and takes the quotes away
    sed 's/=\(.*;.*\)/="\1"/' "$1" | paste -s -d ' ' -
}
kernel_cmdline_by_grubby() {
    set -- --update-kernel=ALL
    if [ -s "$PART/removed" ]; then set -- "$@" "--remove-args=$(kernel_cmdline_quoted "$PART/removed")"; fi
    cat "$PART/planned" "$PART/restored" > "$PART/args"
    if [ -s "$PART/args" ]; then set -- "$@" "--args=$(kernel_cmdline_quoted "$PART/args")"; fi
    grubby "$@"
}
kernel_cmdline_prove() { # NEW|OLD
    if ! kernel_cmdline_pending "$1"; then return; fi
    why="the kernel's command line is \"$(cat /proc/cmdline)\": $pending"
    return 1
}
given() { # PARAMETER FILE: whether it stands there
    case " $(cat "$2") " in
    *" $1 "*) return 0 ;;
    *) return 1 ;;
    esac
}
kernel_cmdline_pending() { # NEW|OLD: sets `pending` to what only a boot brings
    pending=
    while IFS= read -r parameter; do
        given "$parameter" "$PART/before" && before=yes || before=
        given "$parameter" /proc/cmdline && now=yes || now=
        case $1,$now,$before in
        new,,*) pending="$parameter is not there" ;;
        old,yes,) pending="$parameter is still there" ;;
        esac
    done < "$PART/planned"
    while IFS= read -r parameter; do
        given "$parameter" "$PART/before" && before=yes || before=
        given "$parameter" /proc/cmdline && now=yes || now=
        case $1,$now,$before in
        new,yes,*) pending="$parameter is still there" ;;
        old,,yes) pending="$parameter is not there" ;;
        esac
    done < "$PART/removed"
    [ -n "$pending" ]
}
kernel_cmdline_undo() {
    why="the kernel's command line could not be put back"
    take_back_once kernel_cmdline_take_back && sync
}
kernel_cmdline_take_back() {
    while IFS= read -r path <&3; do take_back "$path"; done 3< "$PART/files"
}
kernel_cmdline_by_hand() { # the files are back where only the boot is missing
    if [ -e "$PART/stuck" ]; then stuck_by_hand; else printf 'cat /proc/cmdline; systemctl reboot; '; fi
}
