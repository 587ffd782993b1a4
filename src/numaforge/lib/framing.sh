# shellcheck shell=sh
# Parts of an answer, by name: see framing.py. Programs speak one language, and begin without reading another's files.
export LC_ALL=C

begin_part() { printf '\n%s part %s\n' "$ANSWER" "$1"; } # NAME
tell_part() {                                          # NAME COMMAND ARGUMENT...: what it prints is this part
    begin_part "$1"
    shift
    "$@" || :
}
