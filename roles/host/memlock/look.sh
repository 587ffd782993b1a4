# shellcheck shell=sh

look_memlock() { # UNIT DROP-IN planned|not...: the limits of units that are planned or have our drop-in
    while [ "$#" -gt 2 ]; do
        if [ "$3" = planned ] || [ -e "$2" ]; then printf '%s %s\n' "$1" "$(memlock_of "$1")"; fi
        shift 3
    done
}
