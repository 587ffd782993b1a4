#!/bin/sh
# What action.yml runs: check the files that PROFILES, KUBELET and MIG name, against MACHINE and KUBELET_VERSION. Each
# refused file is an annotation; SARIF is a folder for a log of each kubelet configuration, or empty.
set -u
newline='
'
code=0
checked=0

refuse() { # FILE: annotate it with the text on standard input
    text=$(sed -e 's/%/%25/g' -e 's/\r/%0D/g')
    printf '::error file=%s::' "$1"
    while [ "$text" != "${text#*"$newline"}" ]; do
        printf '%s%%0A' "${text%%"$newline"*}"
        text=${text#*"$newline"}
    done
    printf '%s\n' "$text"
    code=1
}
check() { # FILE COMMAND...: run a check of the file
    file=$1
    shift
    checked=$((checked + 1))
    if [ ! -f "$file" ]; then
        refuse "$file" << END
there is no such file
END
    elif answer=$("$@" 2>&1); then
        printf '%s: ok\n' "$file"
    else
        refuse "$file" << END
$answer
END
    fi
}

# shellcheck disable=SC2086 # patterns with blanks between
set -- $PROFILES
for file; do
    check "$file" numaforge plan "$MACHINE" --kubelet-version "$KUBELET_VERSION" --profile "$file" -q
done
# shellcheck disable=SC2086
set -- $KUBELET
[ -z "$SARIF" ] || mkdir -p "$SARIF"
for file; do
    check "$file" numaforge kubelet check "$file" --machine "$MACHINE" --kubelet-version "$KUBELET_VERSION" -q
    if [ -n "$SARIF" ] && [ -f "$file" ]; then
        numaforge kubelet check "$file" --machine "$MACHINE" --kubelet-version "$KUBELET_VERSION" -q -o sarif \
            > "$SARIF/$checked.sarif"
    fi
done
# shellcheck disable=SC2086
set -- $MIG
for file; do check "$file" numaforge mig check "$file" "$MACHINE" -q; done

if [ "$checked" = 0 ]; then
    echo "::error::no file to check: give profiles, kubelet or mig"
    exit 2
fi
exit "$code"
