# shellcheck shell=sh
# The change of a node that has not ended, as part of a look at the node. The look waits for nothing, and where there is
# no such change it starts no program. A change whose outcome is written has ended, though its process still tidies up.

# Whether the outcome is written; where an undo was asked for, its outcome.
has_ended() { [ -e "$1/result.json" ] && { [ ! -e "$1/revert" ] || [ -e "$1/applied.json" ]; }; } # FOLDER

# Prints `unfinished ID HOW SECONDS STATE`. HOW is `unconfirmed`: it is in effect, and undone in SECONDS without a
# confirmation; `undone`: it goes back; `works`; or `left`: no process works on it. SECONDS is `-` for all others.
tell_unfinished() ( # ROOT
    if [ ! -L "$1/current" ]; then exit; fi
    folder=$(cd -P "$1/current" && pwd) || exit
    state='' how=works seconds=-
    IFS= read -r state < "$folder/state"
    if [ ! -e "$folder/alive" ] || flock -n -s 6 6< "$folder/alive"; then
        how=left
    elif has_ended "$folder"; then
        exit
    elif [ -e "$folder/why" ] || [ -e "$folder/revert" ]; then
        how=undone
    elif [ "$state" = confirming ] && [ ! -e "$folder/confirmed" ] && read -r deadline _ < "$folder/waits"; then
        read -r uptime _ < /proc/uptime
        how=unconfirmed seconds=$((deadline - ${uptime%%.*}))
    fi
    printf 'unfinished %s %s %s %s\n' "${folder##*/}" "$how" "$seconds" "$state"
) 2> /dev/null
