#!/bin/sh
# beside.sh 'COMMAND' 'COMMAND': run the first out of sight beside the second, then show what it said. Ends with
# success if both did.
set -u
said=$(mktemp)
sh -c "exec $1" > "$said" 2>&1 < /dev/null &
aside=$!
sh -c "exec $2" &
in_front=$!
stop() { # STATUS: both end in their own way first
    trap '' INT TERM HUP
    kill "$aside" "$in_front" 2> /dev/null
    wait
    rm -f "$said"
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP
wait "$in_front"
first=$?
wait "$aside"
second=$?
printf '\n== %s\n' "$1"
cat "$said"
rm -f "$said"
[ "$first" -eq 0 ] && [ "$second" -eq 0 ]
