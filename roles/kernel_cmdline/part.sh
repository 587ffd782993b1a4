# shellcheck shell=sh
# Parameters of the kernel's command line, one a line: `planned`, `removed` (added by an earlier plan and not in this
# one), `restored` (what the boot loader's entry had in place of the removed ones) and `replaced` (what it had in place
# of planned ones: "NEW instead-of OLD"). Settings: CMDLINE_RECORD (which parameters are ours), CMDLINE_DROP_IN,
# CMDLINE_TRIAL (the script of our entry in GRUB's menu), CMDLINE_LOADER (grub: Debian and Ubuntu read drop-ins of
# /etc/default/grub.d; grubby: RHEL and its derivatives change entries) and CMDLINE_ONCE. With CMDLINE_ONCE=yes an entry
# of our own is booted once, and `commit` writes the lasting change: until then a power cycle starts the old entry.

TRIAL=numaforge-trial # the id of our entry in GRUB's menu

kernel_cmdline_keep() {
    for path in $(kernel_cmdline_files); do keep "$FOLDER/backup" "$path" || return 1; done
    cp /proc/cmdline "$PART/before" || return 1
    broken_entries > "$PART/broken"
    if ! next_entry && ! find_entry is_running; then
        echo "no entry of the boot loader starts the running kernel" >&2
        return 1
    fi
    printf '%s\n' "$entry_kernel" > "$PART/kernel"
    printf '%s\n' "$entry_options" > "$PART/options"
    printf '%s\n' "$entry_file" > "$PART/entry"
    if [ -n "$entry_file" ]; then keep "$FOLDER/backup" "$entry_file" || return 1; fi
    sync "$PART/before" "$PART/broken" "$PART/kernel" "$PART/options" "$PART/entry"
}
kernel_cmdline_files() {
    printf '%s\n' "$CMDLINE_RECORD"
    if [ "$CMDLINE_LOADER" = grub ]; then printf '%s\n' "$CMDLINE_DROP_IN" "$CMDLINE_TRIAL" /boot/grub/grub.cfg; fi
}
kernel_cmdline_apply() {
    why="the kernel's command line could not be written"
    if [ "$CMDLINE_ONCE" = yes ]; then
        kernel_cmdline_with "kernel_cmdline_try_by_$CMDLINE_LOADER" && kernel_cmdline_look_at trial || return 1
        why="the entry that is to be booted once could not be chosen"
        boot_once "$(kernel_cmdline_trial_id)"
    else
        kernel_cmdline_make_lasting
    fi
}
kernel_cmdline_commit() {
    if [ "$CMDLINE_ONCE" != yes ]; then return; fi
    why="the kernel's command line could not be made lasting"
    kernel_cmdline_make_lasting
}
kernel_cmdline_make_lasting() {
    : > "$PART/lasting" && sync "$PART/lasting" || return 1
    kernel_cmdline_record | kernel_cmdline_write "$CMDLINE_RECORD" || return 1
    kernel_cmdline_with "kernel_cmdline_by_$CMDLINE_LOADER" && kernel_cmdline_look_at default
}
kernel_cmdline_with() { # COMMAND: run it; on failure add its last line of output to `why`
    "$1" > "$PART/output" 2>&1 || {
        why="$why: $(tail -n 1 "$PART/output")"
        return 1
    }
    sync
}
kernel_cmdline_write() { base64 | stage new "$1" "${2:-0644}" root root && place new "$1"; } # PATH MODE, content on stdin
kernel_cmdline_record() {
    echo "# Written by numaforge: what it has added to the kernel's command line."
    while IFS= read -r parameter; do
        kernel_cmdline_instead_of "$parameter"
        printf '%s%s\n' "$parameter" "${other:+ instead-of $other}"
    done < "$PART/planned"
}
kernel_cmdline_instead_of() { # PARAMETER: sets `other` to the one that grubby removes for it
    other=$(sed -n "s/^$(printf '%s' "$1" | sed 's/[].[*^$\/]/\\&/g') instead-of //p" "$PART/replaced")
    if [ -n "$other" ] || [ "$CMDLINE_LOADER" != grubby ]; then return; fi
    word_of "$(kernel_cmdline_bare < "$PART/options")" "${1%%=*}"
    if [ -n "$word" ] && [ "${1%%=*}=$word" != "$1" ] && ! listed "${1%%=*}=$word" removed; then other=${1%%=*}=$word; fi
}
listed() { grep -qxF -e "$1" "$PART/$2"; } # PARAMETER FILE
kernel_cmdline_bare() { tr -d '"'; }       # GRUB removes the quotes
kernel_cmdline_quoted() {                  # FILE: its lines joined; GRUB ends a command at an unquoted ";"
    sed 's/=\(.*;.*\)/="\1"/' "$1" | paste -s -d ' ' -
}

# ---- one entry, for one boot ----

kernel_cmdline_trial_id() {
    if [ "$CMDLINE_LOADER" = grub ]; then
        echo "$TRIAL"
    else
        id=$(kernel_cmdline_trial_entry)
        id=${id##*/}
        echo "${id%.conf}"
    fi
}
kernel_cmdline_trial_entry() { # next to this machine's entry; its version sorts below all others
    read -r path < "$PART/entry"
    read -r kernel < "$PART/kernel"
    kernel_version "$kernel"
    path=${path%.conf}
    echo "${path%-"$version"}-0-numaforge.conf"
}
kernel_cmdline_options() { # the options of the entry on trial
    read -r options < "$PART/options"
    printf '%s\n' "$options" | tr -s ' \t' '\n' | while IFS= read -r given; do
        bare=$(printf '%s' "$given" | kernel_cmdline_bare)
        if listed "$bare" removed || listed "$bare" planned; then continue; fi
        if [ "$CMDLINE_LOADER" = grubby ] && grep -q "^$(printf '%s' "${bare%%=*}" | sed 's/[].[*^$\/]/\\&/g')=" "$PART/planned"; then
            continue
        fi
        printf '%s ' "$given"
    done
    cat "$PART/planned" "$PART/restored" > "$PART/args"
    kernel_cmdline_quoted "$PART/args"
}
kernel_cmdline_try_by_grub() {
    if ! next_entry; then
        echo "$unknown"
        return 1
    fi
    {
        # shellcheck disable=SC2016 # the script prints what follows its second line
        printf '#!/bin/sh\nexec tail -n +3 "$0"\n'
        echo "# Written by numaforge: an entry that is booted once, while a change of this node is tried."
        # shellcheck disable=SC2016 # GRUB expands it
        printf 'menuentry %s $menuentry_id_option %s {\n' "'numaforge: kernel parameters on trial'" "'$TRIAL'"
        printf '%s\n' "$entry_text" | while IFS= read -r line; do
            case $line in
            linux[[:space:]]* | linux16[[:space:]]* | linuxefi[[:space:]]*)
                printf '\t%s %s %s\n' "${line%%[[:space:]]*}" "$entry_kernel" "$(kernel_cmdline_options)"
                ;;
            *) printf '\t%s\n' "$line" ;;
            esac
        done
        echo "}"
    } | kernel_cmdline_write "$CMDLINE_TRIAL" 0755 && kernel_cmdline_update_grub
}
kernel_cmdline_try_by_grubby() {
    read -r path < "$PART/entry"
    options=$(kernel_cmdline_options)
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        options[[:space:]]*)
            [ -z "$options" ] || printf 'options %s\n' "$options"
            options=
            ;;
        title[[:space:]]*) echo "title numaforge: kernel parameters on trial" ;;
        version[[:space:]]*) echo "version 0-numaforge" ;;
        *) printf '%s\n' "$line" ;;
        esac
    done < "$path" | kernel_cmdline_write "$(kernel_cmdline_trial_entry)"
}

# ---- the lasting change ----

kernel_cmdline_by_grub() {
    {
        echo "# Written by numaforge."
        # shellcheck disable=SC2016 # GRUB's shell expands it; no parameter holds a quote, a dollar or a backslash
        printf 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT %s"\n' \
            "$(kernel_cmdline_quoted "$PART/planned" | sed 's/"/\\"/g')"
    } | kernel_cmdline_write "$CMDLINE_DROP_IN" || return 1
    content "$CMDLINE_DROP_IN" > "$PART/drop-in" && sync "$PART/drop-in" || return 1
    kernel_cmdline_end_trial && kernel_cmdline_update_grub
}
kernel_cmdline_update_grub() { # and note the result, which is ours until another program changes it
    update-grub && content /boot/grub/grub.cfg > "$PART/grub.cfg" && sync "$PART/grub.cfg"
}
kernel_cmdline_by_grubby() { # only this kernel's entries: others, including the rescue entry, stay as they are
    kernel_cmdline_end_trial || return 1
    read -r kernel < "$PART/kernel"
    if [ -s "$PART/removed" ]; then
        grubby "--update-kernel=$(kernel_cmdline_on_disk "$kernel")" \
            "--remove-args=$(kernel_cmdline_quoted "$PART/removed")" || return 1
    fi
    cat "$PART/planned" "$PART/restored" > "$PART/args"
    if [ -s "$PART/args" ]; then
        grubby "--update-kernel=$(kernel_cmdline_on_disk "$kernel")" "--args=$(kernel_cmdline_quoted "$PART/args")" ||
            return 1
    fi
    read -r path < "$PART/entry"
    [ -z "$path" ] || content "$path" > "$PART/written" && sync "$PART"
}
kernel_cmdline_on_disk() { # PATH as the boot loader sees it: prints its path on the host
    for found in "$1" "/boot$1" "/boot/${1##*/}"; do
        if [ -e "$found" ]; then
            echo "$found"
            return
        fi
    done
    echo "$1"
}
kernel_cmdline_end_trial() {
    if [ "$CMDLINE_ONCE" != yes ]; then return; fi
    not_once "$(kernel_cmdline_trial_id)" || return 1
    if [ "$CMDLINE_LOADER" = grub ]; then remove "$CMDLINE_TRIAL"; else remove "$(kernel_cmdline_trial_entry)"; fi
}

# ---- what the next boot would start ----

kernel_cmdline_look_at() { # trial|default: fails, with `why`, unless kernel, root and parameters are as wanted
    why="the boot loader's default has changed by itself"
    next_entry || find_entry is_running || return 1
    read -r kernel < "$PART/kernel"
    if [ "$entry_kernel" != "$kernel" ]; then
        why="$why: it starts $entry_kernel, not $kernel"
        return 1
    fi
    if [ "$1" = trial ]; then
        wanted=$(kernel_cmdline_trial_id)
        why="the boot loader has no entry $wanted"
        find_entry is_wanted "$wanted" || return 1
    fi
    why="the boot entry ${entry_title:-$entry_id}"
    if ! is_whole; then
        why="$why names $lacking, which is not there"
        return 1
    fi
    bare=$(printf '%s' "$entry_options" | kernel_cmdline_bare)
    while IFS= read -r parameter; do
        case " $bare " in *" $parameter "*) continue ;; esac
        why="$why lacks $parameter"
        return 1
    done < "$PART/planned"
    while IFS= read -r parameter; do
        case " $bare " in *" $parameter "*) ;; *) continue ;; esac
        why="$why still has $parameter"
        return 1
    done < "$PART/removed"
    word_of "$(cat "$PART/before")" root
    root=$word
    word_of "$bare" root
    if [ "$word" != "$root" ]; then
        why="$why has root=$word, and this system runs from root=$root"
        return 1
    fi
}

# ---- proof and rollback ----

kernel_cmdline_prove() { # NEW|OLD
    if ! kernel_cmdline_pending "$1"; then return; fi
    why="the kernel's command line is \"$(cat /proc/cmdline)\": $pending"
    return 1
}
given() { # PARAMETER FILE: whether the file has it
    case " $(cat "$2") " in
    *" $1 "*) return 0 ;;
    *) return 1 ;;
    esac
}
kernel_cmdline_pending() { # NEW|OLD: sets `pending` to what still needs a reboot
    pending=
    for list in planned removed; do
        while IFS= read -r parameter; do
            given "$parameter" "$PART/before" && before=yes || before=
            given "$parameter" /proc/cmdline && now=yes || now=
            case $list,$1,$now,$before in
            planned,new,,* | removed,old,,yes) pending="$parameter is not there" ;;
            planned,old,yes, | removed,new,yes,*) pending="$parameter is still there" ;;
            esac
        done < "$PART/$list"
    done
    [ -n "$pending" ]
}
kernel_cmdline_undo() { # step by step: a kernel package may have changed the boot loader's files since
    why="the kernel's command line could not be put back"
    take_back_once kernel_cmdline_take_back && sync
}
kernel_cmdline_take_back() {
    kernel_cmdline_with kernel_cmdline_end_trial || echo "the entry on trial" >> "$PART/stuck"
    take_back "$CMDLINE_RECORD"
    "kernel_cmdline_back_by_$CMDLINE_LOADER"
    broken_entries | while IFS= read -r path; do
        if ! listed "$path" broken; then printf '%s\n' "$path"; fi
    done > "$PART/lost"
    if [ -s "$PART/lost" ]; then
        why="$why: an entry of the boot loader names $(head -n 1 "$PART/lost"), which is not there"
        echo "the entries" >> "$PART/stuck"
    fi
}
kernel_cmdline_back_by_grub() {
    if [ -e "$PART/drop-in" ]; then
        if [ -e "$CMDLINE_DROP_IN" ] && [ "$(content "$CMDLINE_DROP_IN")" != "$(noted kernel_cmdline/drop-in)" ]; then
            keep "$FOLDER/edited" "$CMDLINE_DROP_IN"
        fi
        take_back "$CMDLINE_DROP_IN"
    elif [ -e "$PART/lasting" ]; then
        take_back "$CMDLINE_DROP_IN"
    fi
    if kernel_cmdline_is_as_kept /boot/grub/grub.cfg; then return; fi
    if ! update-grub > "$PART/output" 2>&1; then
        why="$why: $(tail -n 1 "$PART/output")"
        if [ "$(content /boot/grub/grub.cfg)" = "$(noted kernel_cmdline/grub.cfg)" ]; then
            take_back /boot/grub/grub.cfg
        else
            echo "the menu of GRUB" >> "$PART/stuck"
        fi
    fi
}
kernel_cmdline_is_as_kept() { [ "$(content "$FOLDER/backup$1")" = "$(content "$1")" ]; } # PATH
kernel_cmdline_back_by_grubby() {
    if [ ! -e "$PART/lasting" ]; then return; fi
    read -r path < "$PART/entry"
    if [ -n "$path" ] && [ "$(content "$path")" = "$(noted kernel_cmdline/written)" ]; then
        take_back "$path"
        return
    fi
    read -r kernel < "$PART/kernel"
    if ! find_entry starts_kernel "$kernel"; then return; fi # the kernel was uninstalled, with its entry
    tr -d '"' < "$PART/options" | tr -s ' \t' '\n' > "$PART/words"
    printf '%s' "$entry_options" | kernel_cmdline_bare | tr -s ' \t' '\n' > "$PART/now"
    : > "$PART/away" && : > "$PART/back"
    while IFS= read -r parameter; do
        if listed "$parameter" now && ! listed "$parameter" words; then echo "$parameter" >> "$PART/away"; fi
    done < "$PART/planned"
    while IFS= read -r parameter; do
        if listed "$parameter" now; then continue; fi
        if listed "$parameter" removed || grep -q "^${parameter%%=*}=" "$PART/planned"; then echo "$parameter" >> "$PART/back"; fi
    done < "$PART/words"
    target=$(kernel_cmdline_on_disk "$kernel")
    if [ -s "$PART/away" ]; then
        grubby "--update-kernel=$target" "--remove-args=$(kernel_cmdline_quoted "$PART/away")" ||
            echo "the entry of $target" >> "$PART/stuck"
    fi
    if [ -s "$PART/back" ]; then
        grubby "--update-kernel=$target" "--args=$(kernel_cmdline_quoted "$PART/back")" ||
            echo "the entry of $target" >> "$PART/stuck"
    fi
}
starts_kernel() { [ "$entry_kernel" = "$1" ] && [ "${entry_id%-0-numaforge}" = "$entry_id" ]; } # PATH
kernel_cmdline_by_hand() { # without stuck files, only the reboot is missing
    if [ ! -e "$PART/stuck" ]; then
        printf 'cat /proc/cmdline; systemctl reboot; '
        return
    fi
    grep '^/' "$PART/stuck" > "$PART/paths"
    mv "$PART/paths" "$PART/stuck"
    stuck_by_hand
    if [ "$CMDLINE_LOADER" = grub ]; then
        printf "rm -f '%s'; update-grub; grep menuentry /boot/grub/grub.cfg; ls /boot; " "$CMDLINE_TRIAL"
    else
        printf "rm -f '%s'; grubby --info=ALL; ls /boot; " "$(kernel_cmdline_trial_entry)"
    fi
}
