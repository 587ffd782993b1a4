# shellcheck shell=sh
# ib_write_bw between two ports of this host; gid_index and need are from verification/active.sh.
write_between() { # DEVICE PORT DEVICE PORT SECONDS
    need ib_write_bw
    mine=$(gid_index "$1" "$2") && theirs=$(gid_index "$3" "$4") || exit 1
    tcp=18600
    # It ignores the first and last 2 seconds of a run, its margins: a shorter run counts nothing.
    common="-s 1048576 -D $(($5 + 4)) --report_gbits -F -p $tcp"
    # shellcheck disable=SC2086 # words
    ib_write_bw -d "$3" -i "$4" ${theirs:+-x "$theirs"} $common > /dev/null 2>&1 &
    server=$!
    tries=0
    # shellcheck disable=SC2086
    until said=$(ib_write_bw -d "$1" -i "$2" ${mine:+-x "$mine"} $common 127.0.0.1 2>&1); do
        tries=$((tries + 1))
        if [ "$tries" -ge 5 ] || ! kill -0 "$server" 2> /dev/null; then
            kill "$server" 2> /dev/null
            printf '%s\n' "$said"
            exit 1
        fi
        sleep 1
    done
    wait "$server"
    printf '%s\n' "$said"
}
