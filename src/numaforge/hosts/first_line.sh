# shellcheck shell=sh
# A kernel file's first line. The shell's own `read` needs no process, which counts with 1000 files below
# /sys, but it asks for one byte at a time, and a sysctl gives its value to the first read only.
first_line() { # PATH, into $line
    # shellcheck disable=SC2034 # the caller reads it
    case $1 in
    /proc/sys/*) line=$(head -n 1 "$1") ;;
    *) IFS= read -r line < "$1" ;;
    esac
}
