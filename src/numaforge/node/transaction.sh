# shellcheck shell=sh
# The order of a maintenance. UPWARDS are its parts, the lowest first; none is known here by its name. A part is
# a set of functions PART_VERB; only `apply` and `undo` are required, and each finds its data in $PART.
#
#   keep          copy what is there, prepare: the last moment at which nothing has changed; where the node is not
#                 what it was looked at any more, leave $FOLDER/outdated and fail
#   stop NEW|OLD  make way for what follows
#   apply         change what is there
#   start NEW|OLD start what was stopped; OLD: after everything was undone
#   prove NEW|OLD say whether it works; sets `told`
#   commit        make lasting what was applied for one boot only; it may run again after a break
#   undo          put back what was kept, also what no `apply` has changed, but a boot that has read the files of the
#                 change; 2: go on all the same, 1: start nothing
#   by_hand       print the commands that do what `undo` or `prove OLD` could not
#   restart_by_hand  print the commands that start what was stopped
#   notes         print what a reader of the result has to know
#   explain       keep what tells why it failed
#   discard       remove what `keep` has prepared
#   pending NEW|OLD  whether only a boot makes it true
#   tolerates PATH before-stop|after-stop  whether that file changes by itself
#
# DISTURBING are the parts that disturb pods, and ENDING those of them that end other work, too. What they do to a node
# on which a pod is that the lease does not allow (pods.sh), or work that is spared (work.sh), is parked, forwards and
# back, until that has left or, of a pod, a renewed lease allows it. A change that has not begun to change anything ends
# instead.
#
# A verb that fails sets `why`. Forwards: keep, stop downwards, apply upwards, start and prove upwards, wait for the
# confirmation, commit upwards. Back: stop and undo downwards, start and prove upwards.

provides() { command -v "$1_$2" > /dev/null 2>&1; } # PART VERB
call() {                                            # PART VERB ARGUMENT...
    PART=$FOLDER/$1 function=$1_$2
    shift 2
    forget_rights
    "$function" "$@"
}
step() { # PART VERB ARGUMENT...: journalled
    provides "$1" "$2" || return 0
    case "$2 ${3-}" in "stop old" | "undo ") park "$1" "$2 $1" || return 1 ;; esac
    why="the transaction's journal could not be written"
    phase "$2 $1" || return 1
    why="the step \"$2 $1\" failed"
    call "$@"
}
PARKED_TURNS=10 # the most pauses between two looks for what is disturbed

disturbed_pods() { [ -n "$DISTURBING" ] && foreign_pods; } # sets `why`
disturbed() { disturbed_pods || work_came; }               # sets `why`
disturbed_by() {                                           # PART: sets `why`
    case " $DISTURBING " in *" $1 "*) if foreign_pods; then return 0; fi ;; esac
    [ -z "${booting-}" ] || return 1 # it has ended all work, and what it undoes cannot wait
    case " $ENDING " in *" $1 "*) work_came firm ;; *) return 1 ;; esac
}
park() { # PART STEP: while that is there which the part must not disturb
    parked='' turns=0
    while disturbed_by "$1"; do
        if [ "$why" != "$parked" ]; then
            parked=$why
            why="the transaction's journal could not be written"
            record parked "$parked" state "parked $2" || return 1
        fi
        # Neither limit of the unit counts while it waits (RuntimeMaxSec; TimeoutStopSec of its `recover` half).
        [ -z "${NOTIFY_SOCKET-}" ] || systemd-notify "EXTEND_TIMEOUT_USEC=$((CHANGE_SECONDS + UNDO_SECONDS))000000" || :
        if [ "$turns" -lt "$PARKED_TURNS" ]; then turns=$((turns + 1)); fi
        left=$turns
        while [ "$left" -gt 0 ]; do
            pause
            left=$((left - 1))
        done
    done
    [ -z "$parked" ] || phase "$2"
}
upwards() { along "$UPWARDS" "$@"; }     # VERB ARGUMENT...
downwards() { along "$DOWNWARDS" "$@"; } # VERB ARGUMENT...
along() {                                # PARTS VERB ARGUMENT...: stops at the first part that fails, and sets `at` to it
    parts=$1
    shift
    for at in $parts; do step "$at" "$@" || return 1; done
}
pending_part() ( # NEW|OLD: prints the first part that only a boot makes true
    for part in $UPWARDS; do
        if provides "$part" pending && call "$part" pending "$1" > /dev/null; then echo "$part" && return; fi
    done
)
collect() { # VERB: what the parts print
    for part in $UPWARDS; do
        if provides "$part" "$1"; then call "$part" "$1"; fi
    done
}
reversed() {
    reverse=
    for word; do reverse="$word $reverse"; done
    echo "$reverse"
}

# ---- forwards ----

apply() {
    umask 022
    hold || return 1
    phase keeping
    if ! keep_all 2> "$FOLDER/errors"; then
        refuse "$(tail -n 3 "$FOLDER/errors")"
        return 1
    fi
    if disturbed; then
        : > "$FOLDER/outdated"
        refuse "$why"
        return 1
    fi
    if ! change; then
        undo "$why"
        return 1
    fi
    go_on
}
keep_all() { # and reserve disk space for the undo
    mkdir -p "$FOLDER/backup" || return 1
    for part in $UPWARDS; do
        mkdir -p "$FOLDER/$part" || return 1
        if provides "$part" keep; then call "$part" keep || return 1; fi
    done
    head -c 524288 /dev/zero > "$FOLDER/reserve" && sync -f "$FOLDER"
}
change() {
    downwards stop new || return 1
    # Programs write, and kubelets start pods, until they have stopped: look again.
    if edited after-stop || disturbed; then return 1; fi
    apply_all || blame
}
blame() { # from here on a failure is the plan's fault
    going_down || record blamed yes
    return 1
}
apply_all() { # also after a reboot in between: applied parts are skipped
    ended=
    for part in $UPWARDS; do
        if [ -e "$FOLDER/$part/applied" ]; then continue; fi
        park "$part" "apply $part" || return 1
        why="the transaction's journal could not be written"
        # shellcheck disable=SC2086 # two words
        record $ended "$part/touched" yes state "apply $part" || return 1
        why="the step \"apply $part\" failed"
        call "$part" apply || return 1
        ended="$part/applied yes"
    done
    why="the transaction's journal could not be written"
    # shellcheck disable=SC2086
    [ -z "$ended" ] || record $ended
}
go_on() { # after everything is applied: prove and await the confirmation
    umask 022
    told=
    if { upwards start new && upwards prove new && await_confirmation "$told"; } || blame; then
        make_lasting
    else
        undo "$why"
        return 1
    fi
}
await_confirmation() { # WHAT IS TOLD: of a runner that has reached the node over a connection made after the change
    if [ -e "$FOLDER/committing" ]; then return; fi
    why="the transaction's journal could not be written"
    read -r uptime _ < /proc/uptime
    deadline=$((${uptime%%.*} + CONFIRM_SECONDS))
    record waits "$deadline $(boot_id)" told "$1" state confirming || return 1
    while [ "${uptime%%.*}" -lt "$deadline" ] && [ ! -e "$FOLDER/confirmed" ]; do
        pause
        read -r uptime _ < /proc/uptime
    done
    decide_on_confirmation
}
decide_on_confirmation() ( # a later confirmation is too late
    if exec 7> "$FOLDER/decision" && lock 7 "$FOLDER/decision" "$LOCK_SECONDS"; then
        if [ -e "$FOLDER/confirmed" ]; then return; fi
        why="the change was not confirmed over a new connection within $CONFIRM_SECONDS s"
    fi
    turn_back "$why"
    return 1
)
waited_in_this_boot() {
    read -r deadline waits < "$FOLDER/waits" && [ "$waits" = "$(boot_id)" ]
} 2> /dev/null
make_lasting() { # once a commit has begun, only a failing commit leads back
    why="the transaction's journal could not be written"
    if { record committing yes && upwards commit; } || blame; then
        told=$(noted told)$(collect notes)
        finish applied "${told#; }"
    else
        undo "$why"
        return 1
    fi
}
refuse() { # REASON
    collect discard
    if [ -e "$FOLDER/outdated" ]; then
        finish void "nothing was changed: $1"
    else
        finish refused "nothing was changed: $1"
    fi
}

# ---- back ----

turn_back() { # REASON: from here on the change is only undone; the first reason counts
    if [ ! -e "$FOLDER/why" ]; then record why "$1"; fi
}
undo() { # REASON
    # Nothing can be started or proved now. The next boot puts everything back before anything starts.
    if going_down || undo_by_boot "$1"; then return 1; fi
    rm -f "$FOLDER/reserve" # the undo may need the space
    collect explain
    turn_back "$1"
    collect discard
    first=stop
    # `boot` has done it, or what was stopped only starts again.
    if [ "$(noted back)" = "$(boot_id)" ] || ! touched; then first=; fi
    undo_all "$first"
    if [ "$failed" = fatally ]; then
        conclude failed "$amiss. By hand: $(by_hand "$stuck")$(collect restart_by_hand)"
        return 1
    fi
    told='' ended_as=rolled-back old="the old configuration is back"
    if [ -n "$failed" ]; then ended_as=failed; fi
    if ! touched; then old="nothing was replaced, what was edited stays"; fi
    if ! { upwards start old && upwards prove old; }; then
        if going_down; then return 1; fi
        ended_as=failed told='' old="$old, but $why with it too. By hand: $(by_hand "$at")"
    fi
    conclude "$ended_as" "$old${told:+ and $told}${amiss:+; $amiss. By hand: $(by_hand "$stuck")}"
    [ "$ended_as" = rolled-back ]
}
undo_by_boot() { # REASON: UNDONE_BY_BOOT, and a kubelet may have started with the change while that waited
    [ -n "$UNDONE_BY_BOOT" ] && waited_in_this_boot || return 1
    turn_back "$1"
    first=${ENDING:-$DISTURBING}
    park "${first%% *}" reboot && phase reboot && sync && systemctl reboot
}
count_as_touched() { # all parts, once one is: this boot has read the files that were replaced
    if ! touched; then return; fi
    untouched=
    for part in $UPWARDS; do [ -e "$FOLDER/$part/touched" ] || untouched="$untouched $part/touched yes"; done
    # shellcheck disable=SC2086 # words
    [ -z "$untouched" ] || record $untouched
}
# What was touched, once in a boot: some of it does not outlive one. Sets `failed` (yes, fatally), `amiss` and `stuck` to
# whether, why and in which parts it could not be.
undo_all() { # [stop]: stop everything first
    failed='' amiss='' stuck=''
    if [ -n "${1-}" ]; then
        for part in $DOWNWARDS; do step "$part" stop old || complain "$part" fatally; done
    fi
    for part in $DOWNWARDS; do
        if [ ! -e "$FOLDER/$part/touched" ] || [ "$(noted "$part/undone")" = "$(boot_id)" ]; then continue; fi
        step "$part" undo
        case $? in
        0) record "$part/undone" "$(boot_id)" ;;
        2) complain "$part" yes ;;
        *) complain "$part" fatally ;;
        esac
    done
}
complain() { # PART yes|fatally
    if [ "$failed" != fatally ]; then failed=$2; fi
    amiss="${amiss:+$amiss, and }$why"
    stuck="$stuck $1"
}
by_hand() { # PARTS
    for part in $1; do
        if provides "$part" by_hand; then call "$part" by_hand; fi
    done
}
touched() {
    for part in $UPWARDS; do
        if [ -e "$FOLDER/$part/touched" ]; then return 0; fi
    done
    return 1
}
conclude() { # OUTCOME WHAT-CAME-OF-IT
    going_down || finish "$1" "$(noted why)$(collect notes); $2"
}
revert() {
    umask 022
    hold || return 1
    if [ ! -e "$FOLDER/applied.json" ]; then
        mv "$FOLDER/result.json" "$FOLDER/applied.json" && sync "$FOLDER" || return 1
    fi
    phase reverting
    undo "$(cat "$FOLDER/revert")"
}

# ---- broken off, and after a boot ----

unchanged() {
    case $(noted state) in
    '' | keeping) return 0 ;;
    *) return 1 ;;
    esac
}
ended() { has_ended "$FOLDER"; }
await_boot() { # NEW|OLD: have the kernel boot, once in each direction; again where what asked was broken off
    if [ -e "$FOLDER/awaits-$1" ] && [ "$(noted "awaits-$1")" != "$(kernel_boot_id)" ]; then
        why="the node was rebooted for it, and it still is not so"
        return 1
    fi
    park reboot reboot && record "awaits-$1" "$(kernel_boot_id)" && phase "reboot" || return 1
    sync
    systemctl reboot || {
        why="systemctl reboot failed"
        return 1
    }
    deadline=$(($(uptime_seconds) + REBOOT_SECONDS))
    while [ "$(uptime_seconds)" -lt "$deadline" ]; do pause; done
    why="the node did not reboot within $REBOOT_SECONDS s"
    return 1
}
rebooted_as_asked() { # for what is new
    [ "$(noted state)" = reboot ] && [ -e "$FOLDER/awaits-new" ] && [ "$(noted awaits-new)" != "$(kernel_boot_id)" ]
}
committing() { [ -e "$FOLDER/committing" ] && ! goes_back; }
goes_back() { [ -e "$FOLDER/why" ] || [ -e "$FOLDER/revert" ]; }
goes_on() { committing || { [ "$(noted state)" = booted ] && ! goes_back; }; }
after_boot() { # once in a boot, before any stopped unit starts again
    booting=yes
    go_on_after_boot
    booting=
}
go_on_after_boot() {
    if ended || unchanged; then return; fi
    if committing; then return; fi # committed changes need no undo
    if disturbed_pods; then # a kubelet runs already: what follows this unit parks
        turn_back "$why"
        return
    fi
    if ! goes_back && rebooted_as_asked; then
        if apply_all || blame; then
            phase booted
            return
        fi
        turn_back "$why"
    fi
    if [ -e "$FOLDER/revert" ]; then turn_back "$(cat "$FOLDER/revert")"; fi
    turn_back "the node rebooted during \"$(noted state)\""
    collect discard
    count_as_touched
    undo_all
    systemctl daemon-reload
    record back "$(boot_id)"
}
boot() { # by systemd; the proof has to wait for what waits for this
    umask 022
    if [ "$(noted boot)" = "$(boot_id)" ]; then return; fi
    hold || return 1
    after_boot
    record boot "$(boot_id)" && hand_over recover
}
carry_on() { # asked for over a connection: what goes on, or back, may have to wait, in a unit of its own
    if ended || unchanged; then recover; else hand_over recover; fi
}
recover() {
    umask 022
    if ! ended && ! unchanged && going_down; then return 1; fi
    if ! ended && [ "$(noted boot)" != "$(boot_id)" ]; then
        # What waits for the boot unit cannot be started before it has run: it has this done.
        if systemctl start "${BOOT_UNIT##*/}" 2> /dev/null; then return; fi
        after_boot
        record boot "$(boot_id)"
    fi
    hold || return 1
    if ended; then
        release
    elif [ -e "$FOLDER/revert" ]; then
        revert
    elif unchanged; then
        refuse "the transaction was broken off before it began"
    elif [ -e "$FOLDER/why" ]; then
        undo "$(noted why)"
    elif waited_in_this_boot && [ -e "$FOLDER/confirmed" ]; then
        make_lasting
    elif goes_on; then
        go_on
    else
        undo "the transaction was broken off during \"$(noted state)\""
    fi
}
