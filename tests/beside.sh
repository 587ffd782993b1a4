#!/bin/sh
# beside.sh 'COMMAND'...: run all of them at once, all but the last out of sight, and show what those said when all have
# ended. Ends with success if each did.
set -u
folder=$(mktemp -d)
running=
number=0
for command; do
    number=$((number + 1))
    if [ "$number" -lt "$#" ]; then
        sh -c "exec $command" > "$folder/$number" 2>&1 < /dev/null &
    else
        sh -c "exec $command" &
    fi
    running="$running $!"
done
# shellcheck disable=SC2329 # the traps call it
stop() { # STATUS: all end in their own way first
    trap '' INT TERM HUP
    # shellcheck disable=SC2086 # a word for each process
    kill $running 2> /dev/null
    wait
    rm -rf "$folder"
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP
failed=0
for process in $running; do wait "$process" || failed=1; done
number=0
for command; do
    number=$((number + 1))
    if [ "$number" -lt "$#" ]; then
        printf '\n== %s\n' "$command"
        cat "$folder/$number"
    fi
done
rm -rf "$folder"
exit "$failed"
