# shellcheck shell=sh
# Describes all files with two processes, and sends only the texts that are not known yet. Other programs may change
# them meanwhile: a file that disappears counts as absent.

read_files() { # KNOWN-CHECKSUMS PATH...
    known=$1
    shift
    begin_part stat
    stat -L -c '%a %U %G %n' "$@" 2> /dev/null
    begin_part sum
    sums=$(sha256sum "$@" < /dev/null 2> /dev/null)
    printf '%s\n' "$sums"
    begin_part text
    for path in "$@"; do
        if [ -f "$path" ]; then continue; fi
        if [ -e "$path" ]; then kind=other; else kind=absent; fi
        printf '%s %s\n' "$kind" "$path"
    done
    set -f
    IFS='
'
    for line in $sums; do
        case $known in
        *"${line%% *}"*) ;;
        *)
            path=${line#*  }
            printf 'file %s\n' "$path"
            if ! base64 < "$path" 2> /dev/null; then
                if [ -e "$path" ]; then return 1; fi
                echo "-" # not a base64 character
            fi
            echo .
            ;;
        esac
    done
    set +f
    unset IFS
}
