# shellcheck shell=sh

other_network_namespaces() { # while any exist, the RDMA subsystem cannot change its mode
    [ "$(readlink /proc/[0-9]*/ns/net 2> /dev/null | sort -u | grep -c .)" -gt 1 ] ||
        [ -n "$(ls /run/netns 2> /dev/null)" ]
}
look_modules() { # RECORD FILE load:MODULE... option:MODULE:NAME... blocked:MODULE...
    may_go=
    netns=
    each_record "$1" look_recorded
    recorded=$may_go
    each_record "$2" look_told
    shift 2
    for wish in "$@"; do
        name=${wish#*:}
        case $wish in
        option:*)
            if [ "$name" = ib_core:netns_mode ]; then netns=yes; fi
            look_parameter "${name%%:*}" "${name#*:}"
            case " $* " in *" load:${name%%:*} "*) if ! is_loaded "${name%%:*}"; then may_go=yes; fi ;; esac
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
    if [ -n "$may_go" ]; then # it must not be a module that the host depends on
        if ! command -v ip > /dev/null 2>&1; then echo "blind"; fi
        stands_on | tell_as vital
        # shellcheck disable=SC2046 # four words
        set -- $(own_connection)
        if [ -n "${4-}" ]; then echo "sshd $4"; fi
    fi
    if [ -n "$netns" ] && command -v rdma > /dev/null 2>&1 && ! other_network_namespaces; then echo "netns free"; fi
}
look_parameter() { # MODULE NAME
    told=$(parameter "$1" "$2") && tell_first_line "parameter $1 $2" "$told"
}
look_told() { # LINE of modprobe's file of an earlier plan
    # shellcheck disable=SC2086 # words without patterns
    set -- $1
    case $1 in
    options)
        module=$2
        look_loaded "$module"
        shift 2
        for option in "$@"; do look_parameter "$module" "${option%%=*}"; done
        ;;
    blacklist) look_loaded "$2" ;;
    esac
}
look_loaded() { if is_loaded "$1"; then echo "loaded $1"; fi; } # MODULE
look_recorded() { # MODULE
    may_go=yes
    printf 'recorded %s\n' "$1"
    look_loaded "$1"
}
