# shellcheck shell=sh
# Where root writes, renames and removes: only where no other user can redirect it. Each folder of the path is root's and
# writable by root alone, and so is each link, with what it points at. Then no other user can change what the path means
# between this check and the write. Two more kinds of folders are safe. Where the group root may write, only root is in
# that group; an ACL that lets others write shows as the group's right to write, too, so it is looked for. And in a
# sticky folder, such as /tmp, the kernel keeps others from a folder of root's; what is not there yet, any user may make.

newline='
'
EVERY_USER='65534 65534' # the user and the group without rights of their own: what they may do, every user may
reading=0
forget_rights() { reading=$((reading + 1)) resolved_folders=$newline; } # so that they are read again
forget_rights
# A shell takes the square of a text's length, or worse, to find a row in it and cut it out. So the rights that were read
# are kept by the length of the path, a few rows "MODE UID GID//PATH//" in each variable; "//PATH//" where it is absent.
read_rights() { # PATH...: of these and of every folder above them, by one program
    unread=
    for climbed; do
        while :; do
            eval "rights=\${rights_${reading}_${#climbed}-}"
            case $rights in *"//$climbed//$newline"*) break ;; esac
            eval "rights_${reading}_${#climbed}=\$rights//\$climbed//\$newline"
            case $climbed in *"$newline"*) ;; *) unread=$unread$newline$climbed ;; esac
            case $climbed in
            / | '') break ;;
            /*/*) climbed=${climbed%/*} ;;
            *) climbed=/ ;;
            esac
        done
    done
    [ -z "$unread" ] || keep_rights
}
keep_rights() { # of `unread`: each row in front of the one without rights
    set -- "${IFS-}" "$-"
    IFS=$newline
    set -f
    # shellcheck disable=SC2086 # a path each line
    for right in $(stat -c '%A %u %g//%n//' -- $unread 2> /dev/null || :); do
        climbed=${right#*//} && climbed=${climbed%//}
        eval "rights_${reading}_${#climbed}=\$right\$newline\$rights_${reading}_${#climbed}"
    done
    if [ -n "$1" ]; then IFS=$1; else unset IFS; fi
    case $2 in *f*) ;; *) set +f ;; esac
}
rights_of() { # PATH: sets `right` to "MODE UID GID", or to nothing where the file does not exist
    read_rights "$1"
    eval "rights=\$rights_${reading}_${#1}"
    right=${rights%%"//$1//$newline"*} && right=${right##*"$newline"}
}
resolve() { # PATH: sets `target` to it without links; else says which other user could redirect it: `why`, `redirector`
    resolved=$1 target='' ahead=$1 links=0 redirector=$EVERY_USER
    case $1 in
    *"$newline"*) redirectable "its name has more than one line" || return ;;
    /*) ;;
    *) redirectable "it is not an absolute path" || return ;;
    esac
    read_rights "$1"
    target=${1%/*}
    until case $resolved_folders in *"$newline$target$newline"*) ;; *) [ -z "$target" ] ;; esac do target=${target%/*}; done
    ahead=${1#"$target"}
    while :; do
        while [ "${ahead#/}" != "$ahead" ]; do ahead=${ahead#/}; done
        [ -n "$ahead" ] || return 0
        is_roots_alone "${target:-/}" || return
        case $resolved_folders in *"$newline$target$newline"*) ;; *) resolved_folders=$resolved_folders$target$newline ;; esac
        below=$target/${ahead%%/*}
        case $ahead in */*) ahead=/${ahead#*/} ;; *) ahead= ;; esac
        case $below in
        */.) continue ;;
        */..)
            target=${target%/*}
            continue
            ;;
        esac
        rights_of "$below"
        case $sticky$right,$ahead in
        sticky\ d?????????\ 0\ *,/*[!/]*) target=$below ;;
        sticky*) redirectable "every user may write to ${target:-/}" || return ;;
        ,*/../* | ,*/..) redirectable "$below does not exist" || return ;;
        ,*)
            target=$below$ahead
            return
            ;;
        l?????????\ 0\ *) follow "$below" || return ;;
        l*)
            redirector=${right#* }
            redirectable "the link $below belongs to $(owner_of "$below")" "remove it" || return
            ;;
        *) target=$below ;;
        esac
    done
}
is_roots_file() { # FILE: whether only root can write or redirect it; else says why not, and sets `why`
    resolve "$1" || return 1
    rights_of "$target"
    case $right in -????-??-?\ 0\ *) return 0 ;; esac
    why="$1 is not root's alone to write"
    printf '%s\n' "$why" >&2
    return 1
}
follow() { # LINK, of root's: what is ahead of `resolve` becomes what it points at
    links=$((links + 1))
    to=$(readlink "$1") && [ "$links" -le 40 ] || redirectable "the link $1 cannot be followed" || return
    case $to in
    *"$newline"*) redirectable "the link $1 points at a name of more than one line" || return ;;
    /*) target= ;;
    esac
    ahead=/$to$ahead
    read_rights "$target$ahead"
}
is_roots_alone() { # FOLDER: sets `sticky`
    rights_of "$1"
    sticky=
    case $right in
    d????-??-?\ 0\ *) return 0 ;;
    d????w??-?\ 0\ 0) has_no_acl "$1" || redirectable "the ACL of $1 may let others write" "run setfacl -b '$1'" ;;
    d????????[tT]\ 0\ *) sticky='sticky ' ;;
    d????w??-?\ 0\ *)
        redirector="${EVERY_USER% *} ${right##* }"
        redirectable "the group $(stat -c %G "$1") may write to $1" "run chmod g-w '$1'"
        ;;
    d???????w?*) redirectable "every user may write to $1" "run chmod go-w '$1'" ;;
    d*)
        redirector=${right#* }
        redirectable "$1 belongs to $(owner_of "$1")" "run chown root:root '$1' && chmod go-w '$1'"
        ;;
    *) redirectable "$1 is not a folder" ;;
    esac
}
has_no_acl() { # FOLDER
    case $(ls -ld "$1") in ??????????+*) return 1 ;; esac
}
owner_of() { stat -c '%U (%u)' "$1"; }
redirectable() { # REASON [REMEDY]: fails, of the path in `resolved`
    why="$resolved is left alone, as another user could redirect it: $1${2:+; $2, or use another folder}"
    printf '%s\n' "$why" >&2
    return 1
}
# Locks, and what a unit keeps until the next boot, are for root alone: whatever process opens a lock's file can hold it.
private_folder() { # FOLDER: make it, with mode 0700 for each new one
    [ -d "$1" ] || (umask 077 && mkdir -p "$1")
}
