# shellcheck shell=sh

other_network_namespaces() { # while there are any, the RDMA subsystem keeps its mode
    [ "$(readlink /proc/[0-9]*/ns/net 2> /dev/null | sort -u | grep -c .)" -gt 1 ] ||
        [ -n "$(ls /run/netns 2> /dev/null)" ]
}
look_modules() { # RECORD load:MODULE... option:MODULE:NAME... blocked:MODULE...
    record=$1
    shift
    recorded=$(sed -n 's/^\([^#]\)/\1/p' "$record" 2> /dev/null)
    for name in $recorded; do echo "recorded $name"; done
    for wish in "$@"; do
        name=${wish#*:}
        case $wish in
        option:*) told=$(parameter "${name%%:*}" "${name#*:}") && echo "parameter ${name%%:*} ${name#*:} $told" ;;
        load:*)
            if ! is_loaded "$name" && ! modprobe --dry-run --quiet "$name" 2> /dev/null; then echo "absent $name"; fi
            if [ -n "$recorded" ]; then dependencies "$name" | sed 's/^/needed /'; fi
            ;;
        esac
    done
    for name in $recorded $(printf '%s\n' "$@" | sed -n -e 's/^load://p' -e 's/^blocked://p'); do
        if is_loaded "$name"; then echo "loaded $name"; fi
    done
    case $recorded$* in
    '') return ;;
    esac
    if ! command -v ip > /dev/null 2>&1; then echo "blind"; fi
    vital_modules | sed 's/^/vital /'
    if command -v rdma > /dev/null 2>&1 && ! other_network_namespaces; then echo "netns free"; fi
}
