#!/bin/sh
# beside.sh 'COMMAND' 'COMMAND': run the first out of sight while the second runs in front, then show what it
# said. Ends with success if both did.
set -u
said=$(mktemp)
sh -c "exec $1" > "$said" 2>&1 < /dev/null &
aside=$!
trap 'kill "$aside" 2> /dev/null; rm -f "$said"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
sh -c "exec $2"
in_front=$?
wait "$aside"
beside=$?
printf '\n== %s\n' "$1"
cat "$said"
[ "$in_front" -eq 0 ] && [ "$beside" -eq 0 ]
