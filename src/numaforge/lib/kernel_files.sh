# shellcheck shell=sh disable=SC2086 # lists of files
# Files of the kernel, all by one grep: the shell's own `read` takes a byte at a time, and sysctls answer only a read
# that begins at 0; awk would end at the first file whose read fails (a port without a link has no speed).

newline='
'
find_as_text() { # to GNU grep a text with a NUL is binary, as some kernels end a cpulist; busybox does not know -a
    as_text=-a
    echo | grep -qa '' 2> /dev/null || as_text=
}
tell_lines() ( # FILES, one a line: prints FILE:LINE for each line
    set -f
    IFS=$newline
    if [ "${#1}" -lt 100000 ]; then # every kernel accepts this many bytes of arguments
        grep $as_text -s '' /dev/null $1
    else
        printf '%s\n' "$1" | xargs grep $as_text -s '' /dev/null
    fi || : # a missing file is no failure
)
tell_values() ( # PATH-OR-PATTERN...
    set +f
    IFS=$newline
    find_as_text
    # shellcheck disable=SC2048 # what the patterns match, a line each
    tell_lines "$(printf '%s\n' $*)"
)
