# shellcheck shell=sh

tell_missing() { # PROGRAM...
    for program; do
        command -v "$program" > /dev/null 2>&1 || echo "missing $program"
    done
}
