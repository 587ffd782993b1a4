# shellcheck shell=sh
# Values below /sys and /proc/sys, swap, and the unit that sets them at every boot. `planned` has a line
# KIND<tab>PATH<tab>VALUE for each value: `back` is restored, `new` gets a line with its earlier value in the record,
# `recorded` has one. `online` has such lines for CPUs that come online, before all else, `late` for the values that
# these CPUs bring, `offline` for CPUs that go offline, after all else. `kept` has the record's lines that stay,
# `swaps-on` DEVICE PRIORITY of swap that is turned on again. Settings: SWAP_OFF, VALUES_RECORD (the record's path),
# BOOT_LINK (the unit's link below multi-user.target.wants) and BOOT_LINK_TARGET (empty: remove the link).

TAB=$(printf '\t')

# A kernel file's first line. The shell's own `read` needs no process, but it reads one byte at a time, and a
# sysctl returns its value only to the first read.
first_line() { # PATH: sets $line
    case $1 in
    /proc/sys/*) line=$(head -n 1 "$1") ;;
    *) IFS= read -r line < "$1" || [ -n "$line" ] ;;
    esac
}
words() { printf '%s\n' "$1" | tr -s '[:space:]' ' '; } # the spacing is the kernel's
choose() { # LINE: sets $value_now to the value in effect, "madvise" of "always [madvise] never"
    value_now=$1
    case $1 in
    *\[*\]*) value_now=${1#*\[} value_now=${value_now%%\]*} ;;
    *"$TAB"*) value_now=$(words "$1") ;;
    esac
}
kernel_values_each() { # FILE COMMAND: run it with PATH and VALUE of each; continue after a failure
    while IFS=$TAB read -r _ path value <&3; do "$2" "$path" "$value" 3<&-; done 3< "$PART/$1"
}
kernel_values_read() { # FILE: write the current values into earlier-FILE and, for KIND new, the record
    while IFS=$TAB read -r kind path value <&3; do
        line=
        first_line "$path" || return 1
        choose "$line"
        printf '%s\t%s\t%s\n' "$kind" "$path" "$value_now"
        if [ "$kind" = new ]; then printf '%s\t%s\t%s\n' "$path" "$value_now" "$value" >&4; fi
    done 3< "$PART/$1" > "$PART/earlier-$1" 4>> "$PART/record"
}
kernel_values_keep() {
    cp "$PART/kept" "$PART/record" && : > "$PART/earlier-late" || return 1
    for file in online planned offline; do kernel_values_read "$file" || return 1; done
    swaps_now > "$PART/swaps"
    if [ -n "$SWAP_OFF" ]; then
        while read -r device priority; do
            grep -qF "swap $device$TAB" "$PART/kept" || printf 'swap %s\t%s\toff\n' "$device" "$priority"
        done < "$PART/swaps" >> "$PART/record"
    fi
    keep "$FOLDER/backup" "$VALUES_RECORD" && keep_link "$BOOT_LINK"
}
swaps_now() { # prints DEVICE PRIORITY; the kernel chose a priority below 0
    sed -n '2,$s/^\([^[:space:]]*\)[[:space:]].*[[:space:]]\(-\{0,1\}[0-9][0-9]*\)$/\1 \2/p' /proc/swaps
}
is_swap() { grep -q "^$1[[:space:]]" /proc/swaps; } # DEVICE
swap_on() {                                         # DEVICE PRIORITY
    case $2 in
    -* | '') swapon "$1" ;;
    *) swapon -p "$2" "$1" ;;
    esac || refuses "$1: swap could not be turned on"
}
kernel_values_record() {
    write_record "$VALUES_RECORD" "kernel values before its first change, and as it has set them"
}
kernel_values_apply() {
    why="$VALUES_RECORD could not be written"
    kernel_values_record || return 1 # before the values, so that every change is recorded
    complaints=
    kernel_values_each online set_value
    if [ -s "$PART/late" ]; then
        kernel_values_read late || refuses "a CPU that came online lacks a value that is planned"
        kernel_values_record || return 1
    fi
    for file in planned late offline; do kernel_values_each "$file" set_value; done
    if [ -n "$SWAP_OFF" ] && [ -s "$PART/swaps" ]; then swapoff -a || refuses "swap could not be turned off"; fi
    while read -r device priority; do # skip devices that are gone
        if [ -e "$device" ] && ! is_swap "$device"; then swap_on "$device" "$priority"; fi
    done < "$PART/swaps-on"
    link_unit "$BOOT_LINK" "$BOOT_LINK_TARGET" || refuses "$BOOT_LINK could not be written"
    why=${complaints%; }
    [ -z "$complaints" ]
}
refuses() { complaints="$complaints$1; "; }
# Each refusal is reported, and the other values are still tried. The value is read back: some drivers accept a
# write and keep their own.
set_value() { # PATH VALUE
    if ! printf '%s\n' "$2" > "$1"; then
        refuses "$1: the kernel refuses the value $2"
        return
    fi
    first_line "$1"
    choose "$line"
    if [ "$value_now" != "$2" ] && [ "$(words "$line")" != "$(words "$2")" ]; then
        refuses "$1: wanted $2, the kernel keeps $line"
    fi
}
kernel_values_backwards() { # COMMAND: run it with PATH and earlier VALUE of each, CPUs that went offline first
    for file in offline late planned online; do kernel_values_each "earlier-$file" "$1"; done
}
kernel_values_undo() {
    complaints=
    kernel_values_backwards put_value_back
    if [ -n "$SWAP_OFF" ]; then
        while read -r device priority; do
            is_swap "$device" || swap_on "$device" "$priority"
        done < "$PART/swaps"
    fi
    while read -r device _; do
        if is_swap "$device" && ! grep -q "^$device " "$PART/swaps"; then
            swapoff "$device" || refuses "$device: swap could not be turned off"
        fi
    done < "$PART/swaps-on"
    take_back_once take_back "$VALUES_RECORD" || refuses "$VALUES_RECORD could not be put back"
    link_unit_back "$BOOT_LINK" || refuses "$BOOT_LINK could not be put back"
    if [ -z "$complaints" ]; then return; fi
    why="not every kernel setting has what it had: ${complaints%; }"
    return 2
}
kernel_values_discard() { discard new "$VALUES_RECORD"; }
put_value_back() { # PATH VALUE: only where it differs, since some readable values cannot be written
    first_line "$1"
    choose "$line"
    if [ "$value_now" != "$2" ]; then set_value "$1" "$2"; fi
}
kernel_values_by_hand() {
    kernel_values_backwards value_by_hand
    if [ -e "$PART/stuck" ]; then stuck_by_hand; fi
}
value_by_hand() {
    first_line "$1"
    choose "$line"
    if [ "$value_now" != "$2" ]; then printf "echo '%s' > '%s'; " "$2" "$1"; fi
}
