# shellcheck shell=sh

other_network_namespaces() { # while there are any, the RDMA subsystem keeps its mode
    [ "$(readlink /proc/[0-9]*/ns/net 2> /dev/null | sort -u | grep -c .)" -gt 1 ] ||
        [ -n "$(ls /run/netns 2> /dev/null)" ]
}
look_modules() { # RECORD load:MODULE... option:MODULE:NAME... blocked:MODULE...
    may_go=
    netns=
    each_record "$1" look_recorded
    recorded=$may_go
    shift
    for wish in "$@"; do
        name=${wish#*:}
        case $wish in
        option:*)
            if [ "$name" = ib_core:netns_mode ]; then netns=yes; fi
            told=$(parameter "${name%%:*}" "${name#*:}") && tell_first_line "parameter ${name%%:*} ${name#*:}" "$told"
            ;;
        load:*)
            if ! is_loaded "$name" && ! modprobe --dry-run --quiet "$name" 2> /dev/null; then echo "absent $name"; fi
            if [ -n "$recorded" ]; then dependencies "$name" | tell_as needed; fi
            look_loaded "$name"
            ;;
        blocked:*)
            may_go=yes
            look_loaded "$name"
            ;;
        esac
    done
    if [ -n "$may_go" ]; then # then it must not be what the host is reached by
        if ! command -v ip > /dev/null 2>&1; then echo "blind"; fi
        vital_modules | tell_as vital
    fi
    if [ -n "$netns" ] && command -v rdma > /dev/null 2>&1 && ! other_network_namespaces; then echo "netns free"; fi
}
look_loaded() { if is_loaded "$1"; then echo "loaded $1"; fi; } # MODULE
look_recorded() { # MODULE
    may_go=yes
    printf 'recorded %s\n' "$1"
    look_loaded "$1"
}
