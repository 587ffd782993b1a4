# shellcheck shell=sh
# Whether the node still is as look.sh found it when the change was planned. /proc/uptime counts while a machine sleeps,
# and no time server sets it.

REQUEST_SECONDS=120

last() { # ID OUTCOME of the last transaction that ended
    outcome=
    IFS= read -r outcome < "$ROOT/last"
    printf '%s\n' "$outcome"
} 2> /dev/null
uptime_seconds() {
    read -r uptime _ < /proc/uptime
    echo "${uptime%%.*}"
}
contents() ( # FOLDER PATH...: the checksum of each and of the drop-ins in the folder, then the path
    folder=$1
    shift
    set -f
    IFS='
'
    # shellcheck disable=SC2046 # a line each
    if [ -d "$folder" ]; then set -- "$@" $(find -L "$folder" -type f -name '*.conf'); fi
    {
        sha256sum "$@" < /dev/null 2> /dev/null | sed -n 's/^\([0-9a-f]\{64\}\)  \//\1 \//p'
        for path; do
            case $path in
            *\\*) printf '%s %s\n' "$(content "$path")" "$path" ;; # sha256sum would escape the name
            *) if [ ! -f "$path" ]; then printf 'absent %s\n' "$path"; fi ;;
            esac
        done
    } | LC_ALL=C sort -u
)

# SPARES are the kinds of work that the change must not end. PLANNED_BOOT, PLANNED_UPTIME, PLANNED_LAST, PLANNED_FOLDER and GOOD_FOR_SECONDS are settings; the lines of $FOLDER/planned have the form that `contents` prints.
outdated() { # sets `why` where the node no longer is what the change was planned on
    [ -n "$PLANNED_BOOT" ] || return 1
    age=$(($(uptime_seconds) - PLANNED_UPTIME))
    if [ "$(boot_id)" != "$PLANNED_BOOT" ]; then
        why="the node was rebooted after it was looked at"
    elif [ "$age" -gt "$GOOD_FOR_SECONDS" ]; then
        why="the node was looked at $age s ago, and that is good for $GOOD_FOR_SECONDS s"
    elif [ "$(last)" != "$PLANNED_LAST" ]; then
        why="another transaction has ended after the node was looked at ($(last))"
    else
        edited before-stop || disturbed
    fi
}
# A request to undo an applied change has the lines TOKEN, BOOT, UPTIME as its sender saw them, then whether the plan is
# at fault (yes or no), then the reason.
outdated_request() { # FILE: sets `why` where its sender saw the node in another state
    { IFS= read -r token && IFS= read -r boot && IFS= read -r uptime; } < "$1"
    why="the request is older than the last withdrawal"
    if [ "$token" != "$(noted token)" ]; then return; fi
    why="the node was rebooted after it was asked for"
    if [ "$boot" != "$(boot_id)" ]; then return; fi
    age=$(($(uptime_seconds) - uptime))
    why="it was asked for $age s ago, and that is good for $REQUEST_SECONDS s"
    [ "$age" -gt "$REQUEST_SECONDS" ]
}
take_request() { # FILE
    if [ "$(sed -n 4p "$1")" = yes ]; then record blamed yes || return 1; fi
    sed 1,4d "$1" > "$FOLDER/revert.new" && replace "$FOLDER/revert"
}
work_came() { # [firm]: sets `why` where there is work that the change must not end, or may be
    [ -n "$SPARES" ] || return 1
    firm=${1-}
    evidence=
    while read -r word kind what; do
        case "$word: $SPARES " in
        work:*" $kind "* | unknown:*) evidence="${evidence:+$evidence; }$kind $what" ;;
        esac
    done << END
$(tell_work)
END
    why="it would end work: $evidence"
    [ -n "$evidence" ]
}
present_contents() {
    set -- "$PLANNED_FOLDER"
    while IFS= read -r line; do set -- "$@" "${line#* }"; done < "$FOLDER/planned"
    contents "$@"
}
edited() { # before-stop|after-stop: sets `why` to the changed files, except those that a part tolerates
    [ -n "$PLANNED_BOOT" ] || return 1
    when=$1
    why=$({
        cat "$FOLDER/planned"
        present_contents
    } | LC_ALL=C sort | uniq -u | cut -d ' ' -f 2- | LC_ALL=C sort -u | while IFS= read -r path; do
        if ! tolerated "$path" "$when"; then printf '%s was changed after it was looked at; ' "$path"; fi
    done)
    why=${why%; }
    [ -n "$why" ]
}
tolerated() { # PATH before-stop|after-stop: whether some part expects the file to change by itself
    for part in $UPWARDS; do
        if provides "$part" tolerates && call "$part" tolerates "$1" "$2"; then return 0; fi
    done
    return 1
}
