# shellcheck shell=sh
# The kubelet: stopped while anything that it reads is changed; must then become healthy twice. `invalid-state`
# lists the state files that the new settings make unreadable, `kept-state` the others. Settings: KUBELET_RESTART
# (empty: it is neither stopped nor started), KUBELET_UNIT, KUBELET_UNIT_FILES (not empty: systemd must reload its
# unit), START_SECONDS, STABLE_SECONDS, HEALTH_HOST and HEALTH_PORT (empty: it serves no healthz).

# The kubelet opens this socket at the end of its resource managers' start, once they have read their state. The
# path does not depend on --root-dir.
MANAGERS_SOCKET=/var/lib/kubelet/device-plugins/kubelet.sock
JOURNAL_LINES=200

health() { # queried with a program that the host has. A healthy answer is the body `ok`; proxies are bypassed
    [ -n "$HEALTH_PORT" ] || return 0
    url="http://$HEALTH_HOST:$HEALTH_PORT/healthz"
    if command -v curl > /dev/null 2>&1; then
        [ "$(curl -fsS --noproxy '*' -m 2 "$url" 2> /dev/null)" = ok ]
    elif command -v python3 > /dev/null 2>&1; then
        python3 -c 'import sys, urllib.request as r
sys.exit(r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=2).read() != b"ok")' "$url" 2> /dev/null
    elif command -v wget > /dev/null 2>&1; then
        [ "$(env -u http_proxy wget -q -T 2 -O - "$url" 2> /dev/null)" = ok ]
    else
        # shellcheck disable=SC2016 # bash expands it
        timeout 2 bash -c 'host=${1#[}; exec 3<> "/dev/tcp/${host%]}/$2" &&
            printf "GET /healthz HTTP/1.0\r\n\r\n" >&3 && [ "$(tail -n 1 <&3)" = ok ]' \
            bash "$HEALTH_HOST" "$HEALTH_PORT" 2> /dev/null
    fi
}
unit_state() { systemctl show -p MainPID -p NRestarts -p SubState "$KUBELET_UNIT"; }
managers_run() { grep -q " $MANAGERS_SOCKET\$" /proc/net/unix; }
managers_run_as_before() { [ ! -e "$PART/managers-ran" ] || managers_run; }
look_at_clock() { # sets `now` to hundredths of a second since the boot: whole seconds could count one too many
    read -r now _ < /proc/uptime
    now=${now%.*}${now#*.}
}
ask_unit() { # sets `shown` to systemd's properties of it, `main_pid`, and `begun` to that process's start time
    shown=$(unit_state)
    main_pid=${shown#*MainPID=}
    main_pid=${main_pid%%[!0-9]*}
    begun=$(start_time "$main_pid")
}
main_lives() { [ -n "$begun" ] && [ "$(start_time "$main_pid")" = "$begun" ]; } # so there was no restart
comes_up() { # SECONDS that it must stay up; sets `why` on failure
    look_at_clock
    deadline=$((now + START_SECONDS * 100))
    steady=
    begun=
    while :; do
        look_at_clock
        main_lives || ask_unit
        case $shown in
        *SubState=auto-restart* | *SubState=failed* | *SubState=dead*)
            why="the kubelet ended by itself"
            return 1
            ;;
        *NRestarts=0*) ;;
        *)
            why="the kubelet ended by itself and was restarted"
            return 1
            ;;
        esac
        # The managers start last, and checking for them is cheap, while a health query starts a program.
        managers=
        if managers_run_as_before; then managers=run; fi
        if { [ -n "$managers" ] || [ "$now" -ge "$deadline" ]; } && health; then
            if [ "$shown" != "$steady" ]; then
                steady=$shown
                look_at_clock # after the health query
                since=$now
            fi
            if [ -n "$managers" ] && bound_run && [ $((now - since)) -ge $(($1 * 100)) ]; then
                ask_unit
                if [ "$shown" = "$steady" ]; then return 0; fi
            fi
        else
            steady=
        fi
        if [ "$now" -ge "$deadline" ]; then
            if [ -z "$steady" ]; then
                why="the kubelet was not healthy within $START_SECONDS s"
                return 1
            elif [ -z "$managers" ]; then
                why="the kubelet's resource managers did not start within $START_SECONDS s;"
                why="$why does the container runtime answer?"
                return 1
            elif ! bound_run; then
                why="$down, which was active and which systemd stops with the kubelet,"
                why="$why was not active again within $START_SECONDS s"
                return 1
            fi
        fi
        pause
    done
}
reload_units() { # only where needed: it may take the devices from running containers
    if [ -n "$KUBELET_UNIT_FILES" ] ||
        [ "$(systemctl show -p NeedDaemonReload --value "$KUBELET_UNIT")" = yes ]; then
        systemctl daemon-reload || {
            why="systemctl daemon-reload failed"
            return 1
        }
    fi
}
start_unit() {
    systemctl reset-failed "$KUBELET_UNIT" 2> /dev/null
    systemctl start "$KUBELET_UNIT" || {
        why="systemctl start $KUBELET_UNIT failed"
        return 1
    }
    start_bound
}
stop_unit() {
    note_bound
    systemctl stop "$KUBELET_UNIT"
}

kubelet_keep() {
    kubelet_each_state kubelet_resolve || return 1
    if [ -z "$KUBELET_RESTART" ]; then return; fi
    if health; then
        : > "$PART/was-healthy"
        if managers_run; then : > "$PART/managers-ran"; fi
    fi
}
kubelet_stop() { # NEW|OLD; it writes its state until it is stopped
    if [ -n "$KUBELET_RESTART" ]; then
        why="the kubelet could not be stopped"
        stop_unit || return 1
    fi
    if [ "$1" = old ]; then return; fi
    why="the kubelet's state could not be copied"
    kubelet_each_state kubelet_keep_state && sync -f "$FOLDER"
}
kubelet_each_state() { # COMMAND: run it with the path of each state file
    while IFS= read -r path <&3; do "$1" "$path" 3<&- || return 1; done 3<<END
$(cat "$PART/invalid-state" "$PART/kept-state")
END
}
kubelet_resolve() { [ -z "$1" ] || resolve "$1"; }
kubelet_keep_state() { [ -z "$1" ] || keep "$FOLDER/backup" "$1"; }
kubelet_apply() {
    why="a state file could not be removed"
    while IFS= read -r path <&3; do remove "$path" || return 1; done 3< "$PART/invalid-state"
}
kubelet_start() { # NEW|OLD
    if [ "$1" = old ]; then kubelet_each_state kubelet_put_aside; fi # the pools may not be what they were
    if [ -n "$KUBELET_RESTART" ]; then
        reload_units && start_unit
    elif [ -n "$KUBELET_UNIT_FILES" ] && ! systemctl is-active --quiet "$KUBELET_UNIT"; then
        reload_units # for our files only: a change that reloads nothing else is not drained for it
    fi
}
kubelet_prove() { # NEW|OLD
    [ -n "$KUBELET_RESTART" ] || return 0
    if [ "$1" = old ]; then
        kubelet_prove_old
        return
    fi
    enough=0
    if [ ! -e "$PART/managers-ran" ]; then enough=$STABLE_SECONDS; fi
    comes_up "$enough" || return 1
    why="the transaction's journal could not be written"
    phase "prove kubelet again" || return 1
    why="the kubelet could not be stopped for its second start"
    stop_unit || return 1
    if start_unit && comes_up "$STABLE_SECONDS"; then
        told="the kubelet is healthy with the new configuration"
        return
    fi
    why="the kubelet came up with the new configuration, and not a second time: $why"
    return 1
}
kubelet_prove_old() {
    if comes_up "$STABLE_SECONDS"; then
        told="the kubelet is healthy with it"
    elif [ ! -e "$PART/was-healthy" ]; then
        told="the kubelet was not healthy before either"
    else
        return 1
    fi
}
kubelet_undo() {
    why="not every state file could be put back"
    take_back_once kubelet_each_state kubelet_take_back
}
kubelet_put_aside() { [ -z "$1" ] || put_memory_state_aside "$1" /sys/devices/system/node; }
kubelet_take_back() { [ -z "$1" ] || take_back "$1"; }
kubelet_by_hand() {
    if [ -e "$PART/stuck" ]; then
        stuck_by_hand
    else
        printf 'journalctl -u %s -n 50; systemctl restart %s' "$KUBELET_UNIT" "$KUBELET_UNIT"
        bound_by_hand
    fi
}
kubelet_restart_by_hand() {
    [ -n "$KUBELET_RESTART" ] || return 0
    printf 'systemctl daemon-reload; systemctl restart %s' "$KUBELET_UNIT"
    bound_by_hand
}
kubelet_explain() { # the kubelet's last journal lines, from its first failure
    if [ -e "$FOLDER/journal" ]; then return; fi
    invocation=$(systemctl show -p InvocationID --value "$KUBELET_UNIT")
    journalctl -u "$KUBELET_UNIT" _SYSTEMD_INVOCATION_ID="$invocation" -n "$JOURNAL_LINES" --no-pager -o cat \
        > "$FOLDER/journal.new" 2> /dev/null
    mv -f "$FOLDER/journal.new" "$FOLDER/journal"
}
# The kubelet of a drained node still writes its state: it removes a deleted pod up to ten seconds later
# (removeStaleState in pkg/kubelet/cm/cpumanager). So a changed state file without pods is tolerated: an empty
# map of entries is left out of the file (state/checkpoint.go). The kubelet may write a file in `kept-state`
# until it has stopped: after the stop, that is tolerated, too.
kubelet_tolerates() { # PATH before-stop|after-stop
    if [ "$2" = after-stop ] && grep -qxF "$1" "$PART/kept-state"; then return 0; fi
    grep -qxF "$1" "$PART/kept-state" "$PART/invalid-state" && [ -e "$1" ] && ! grep -qi entries "$1"
}
