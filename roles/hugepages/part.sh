# shellcheck shell=sh
# Pools of huge pages: all are filled, or none. `planned` has a line PAGES PATH for each, PATH being its
# nr_hugepages; `earlier` has the same form. The kernel gives as many pages as it finds, without an error, so the
# number is read back.

pages() { head -n 1 "$1"; } # PATH
pools_each() {              # FILE COMMAND: run it with PATH and PAGES
    while IFS=' ' read -r count path <&3; do "$2" "$path" "$count" 3<&- || return 1; done 3< "$PART/$1"
}
shrink() { # PATH PAGES
    if [ "$(pages "$1")" -gt "$2" ]; then echo "$2" > "$1"; fi
    :
}
fill() { # PATH PAGES: even if the count is right, since surplus pages count too and go when they are freed
    echo "$2" > "$1"
    :
}
lacking() { # PATH PAGES: print how the pool differs
    got=$(pages "$1")
    if [ "$got" = "$2" ]; then return; fi
    pool=${1%/nr_hugepages}
    node=${pool%/hugepages/*}
    place=${node##*/}
    if [ ! -e "$node/meminfo" ]; then node=/proc place="the machine"; fi
    memory=$(sed -n 's/.*MemFree: *//p' "$node/meminfo")
    echo "$1: wanted $2, got $got ($(pages "$pool/free_hugepages") of them free)," \
        "$memory of memory free on $place"
}
set_pools() { # FILE; sets `short` to the differences. Shrink first: other pools may need the memory
    pools_each "$1" shrink
    pools_each "$1" fill
    short=$(pools_each "$1" lacking)
    if [ -z "$short" ]; then return; fi
    echo 1 > /proc/sys/vm/compact_memory
    pools_each "$1" shrink
    pools_each "$1" fill
    short=$(pools_each "$1" lacking)
    [ -z "$short" ]
}
hugepages_keep() {
    while IFS=' ' read -r _ path <&3; do
        if [ ! -e "$path" ]; then
            echo "$path: $NO_SUCH_POOL" >&2
            return 1
        fi
        printf '%s %s\n' "$(pages "$path")" "$path"
    done 3< "$PART/planned" > "$PART/earlier" && sync "$PART/earlier"
}
hugepages_apply() {
    if set_pools planned; then return; fi
    why="$(printf '%s\n' "$short" | sed 's/$/;/') memory is too fragmented, or pages are in use:"
    why="$why reboot the host and run again at once, or ask for fewer pages"
    return 1
}
hugepages_undo() {
    if set_pools earlier; then return; fi
    why="not every pool of huge pages has what it had: $(printf '%s' "$short" | tr '\n' ';')"
    why="$why (a reboot fills them, too)"
    return 2
}
hugepages_prove() { # NEW|OLD: what a boot starts later may have filled them otherwise
    case $1 in
    new) short=$(pools_each planned lacking) ;;
    *) short=$([ ! -e "$PART/undone" ] || pools_each earlier lacking) ;;
    esac
    why="a pool of huge pages lacks its pages, or has too many: $(printf '%s' "$short" | tr '\n' ';')"
    [ -z "$short" ]
}
hugepages_by_hand() { # frees memory first
    pools_each earlier pool_by_hand_shrink
    pools_each earlier pool_by_hand_fill
}
pool_by_hand_shrink() { if [ "$(pages "$1")" -gt "$2" ]; then printf "echo %s > '%s'; " "$2" "$1"; fi; }
pool_by_hand_fill() { if [ "$(pages "$1")" -lt "$2" ]; then printf "echo %s > '%s'; " "$2" "$1"; fi; }
