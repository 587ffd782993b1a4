#!/bin/sh
# beside.sh 'COMMAND'...: run all of them at once: the output of the last in sight, that of the others after all have
# ended. Ends with success if each did. When one fails the others are ended, with every process that they have
# started, and the output of the one that failed comes last.
set -u
GRACE_S=60 # for what ends in its own way: a lab takes its nodes and its control plane down

folder=$(mktemp -d)
# In the environment of every process of the parts. Another one runs inside a part when this script is tested.
mark="BESIDE_${folder##*.}=1"
mkfifo "$folder/ended"
exec 3<> "$folder/ended"

marked() { # the processes of the parts, a number per line
    grep -lszx -e "$mark" /proc/[0-9]*/environ | sed 's#/proc/\([0-9]*\)/.*#\1#'
}

end_parts() { # all that they have started too, also what they start now, by force what does not end in time
    told=' '
    tenths=$((GRACE_S * 10))
    while processes=$(marked) && [ -n "$processes" ]; do
        for process in $processes; do
            case $told in
                *" $process "*) [ "$tenths" -gt 0 ] || kill -KILL "$process" 2> /dev/null ;;
                *) kill -TERM "$process" 2> /dev/null ;;
            esac
            told="$told$process "
        done
        tenths=$((tenths - 1))
        sleep 0.1
    done
    wait
}

# shellcheck disable=SC2329 # the traps call it
stop() { # STATUS
    trap '' INT TERM HUP
    end_parts
    rm -rf "$folder"
    exit "$1"
}
run() { # NUMBER COMMAND
    env "$mark" sh -c "echo started >&3; exec $2 3>&-" 2>&1 < /dev/null
    echo "$1 $?" >&3
}

# A part is found once it has its mark: until each has, a signal is only kept.
kept=
trap 'kept=130' INT
trap 'kept=143' TERM
trap 'kept=129' HUP
number=0
for command; do
    number=$((number + 1))
    if [ "$number" -lt "$#" ]; then
        run "$number" "$command" > "$folder/$number" &
    else
        run "$number" "$command" | tee "$folder/$number" &
    fi
done
started=0
: > "$folder/early"
while [ "$started" -lt "$#" ]; do
    read -r line <&3 || continue # a signal
    if [ "$line" = started ]; then started=$((started + 1)); else echo "$line" >> "$folder/early"; fi
done
cat "$folder/early" >&3
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP
[ -z "$kept" ] || stop "$kept"

failed=0
ended=' '
left=$#
while [ "$left" -gt 0 ] && [ "$failed" -eq 0 ]; do
    # A signal interrupts `wait` wherever it comes; one that comes just before `read` would have to wait for it.
    (read -r line <&3 && echo "$line" > "$folder/next") &
    wait "$!"
    read -r number status < "$folder/next"
    ended="$ended$number "
    left=$((left - 1))
    [ "$status" -eq 0 ] || failed=$number
done
if [ "$failed" -eq 0 ]; then
    wait
else
    trap '' INT TERM HUP
    end_parts
fi

number=0
for command; do
    number=$((number + 1))
    case $ended in *" $number "*) early= ;; *) early=' (ended early)' ;; esac
    if [ "$number" -eq "$failed" ]; then
        culprit=$command
    elif [ "$number" -lt "$#" ]; then
        printf '\n== %s%s\n' "$command" "$early"
        cat "$folder/$number"
    fi
done
if [ "$failed" -gt 0 ]; then
    printf '\n== %s\n' "$culprit"
    cat "$folder/$failed"
    printf '\n== failed with %s: %s\n' "$status" "$culprit"
fi
rm -rf "$folder"
[ "$failed" -eq 0 ]
