# shellcheck shell=sh
# Values below /sys and /proc/sys, swap, and the unit that sets them at every boot. `planned` has a line
# PATH<tab>VALUE for each value. SWAP_OFF, BOOT_LINK (the unit's link below multi-user.target.wants) and
# BOOT_LINK_TARGET (empty: the link has to go) are settings.

TAB=$(printf '\t')

# A kernel file's first line. The shell's own `read` needs no process, but it asks for one byte at a time, and a
# sysctl gives its value to the first read only.
first_line() { # PATH, into $line
    case $1 in
    /proc/sys/*) line=$(head -n 1 "$1") ;;
    *) IFS= read -r line < "$1" || [ -n "$line" ] ;;
    esac
}
words() { printf '%s\n' "$1" | tr -s '[:space:]' ' '; } # the spacing is the kernel's
chosen() { # LINE: the value that counts, "madvise" of "always [madvise] never"
    case $1 in
    *\[*\]*)
        value=${1#*\[}
        printf '%s\n' "${value%%\]*}"
        ;;
    *) printf '%s\n' "$1" ;;
    esac
}
kernel_values_each() { # FILE COMMAND: run it with PATH and VALUE of each; go on after a failure
    while IFS=$TAB read -r path value <&3; do "$2" "$path" "$value" 3<&-; done 3< "$PART/$1"
}
kernel_values_keep() {
    while IFS=$TAB read -r path _ <&3; do
        line=
        first_line "$path" || return 1
        printf '%s\t%s\n' "$path" "$(chosen "$line")"
    done 3< "$PART/planned" > "$PART/earlier"
    sed -n '2,$s/ .*//p' /proc/swaps > "$PART/swaps"
    readlink "$BOOT_LINK" > "$PART/link" || : > "$PART/link"
}
kernel_values_apply() {
    complaints=
    kernel_values_each planned set_value
    if [ -n "$SWAP_OFF" ] && [ -s "$PART/swaps" ]; then swapoff -a || refuses "swap could not be turned off"; fi
    kernel_values_link "$BOOT_LINK_TARGET" || refuses "$BOOT_LINK could not be written"
    why=${complaints%; }
    [ -z "$complaints" ]
}
refuses() { complaints="$complaints$1; "; }
# Every refusal is named, and the others are still tried. What the kernel took is read back: some drivers accept
# a write and keep their value.
set_value() { # PATH VALUE
    if ! printf '%s\n' "$2" > "$1"; then
        refuses "$1: the kernel refuses the value $2"
        return
    fi
    first_line "$1"
    if [ "$(chosen "$line")" != "$2" ] && [ "$(words "$line")" != "$(words "$2")" ]; then
        refuses "$1: wanted $2, the kernel keeps $line"
    fi
}
# systemd reads the link at the next boot. `systemctl enable` would reload all units now, on a node with pods, which
# takes the GPUs of containers away where /dev/char lacks their links
# (github.com/NVIDIA/nvidia-container-toolkit/issues/48).
kernel_values_link() { # TARGET, or nothing for no link
    if [ -n "$1" ]; then mkdir -p "${BOOT_LINK%/*}" && ln -sfn "$1" "$BOOT_LINK"; else rm -f "$BOOT_LINK"; fi
}
kernel_values_undo() {
    complaints=
    kernel_values_each earlier put_value_back
    if [ -n "$SWAP_OFF" ]; then
        while IFS= read -r device; do
            grep -q "^$device " /proc/swaps || swapon "$device" || refuses "$device: swap could not be turned on"
        done < "$PART/swaps"
    fi
    kernel_values_link "$(cat "$PART/link")" || refuses "$BOOT_LINK could not be put back"
    if [ -z "$complaints" ]; then return; fi
    why="not every kernel setting has what it had: ${complaints%; }"
    return 2
}
put_value_back() { # PATH VALUE: only what differs, for some values cannot be written although they can be read
    first_line "$1"
    if [ "$(chosen "$line")" != "$2" ]; then set_value "$1" "$2"; fi
}
kernel_values_by_hand() { kernel_values_each earlier value_by_hand; }
value_by_hand() {
    first_line "$1"
    if [ "$(chosen "$line")" != "$2" ]; then printf "echo '%s' > '%s'; " "$2" "$1"; fi
}
