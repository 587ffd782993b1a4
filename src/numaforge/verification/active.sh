# shellcheck shell=sh
# Proofs that put traffic on a port or on GPUs. Exit code 127: stderr names the missing program.

devices=${devices:-/sys/class/infiniband}

need() { # PROGRAM...
    for program in "$@"; do
        command -v "$program" > /dev/null || {
            echo "$program" >&2
            exit 127
        }
    done
}
# Ethernet needs an index into the port's GID table, InfiniBand does not. It is looked up each time, because it may
# change with a reboot.
gid_index() { # DEVICE PORT
    found=
    port=$devices/$1/ports/$2
    [ "$(cat "$port/link_layer")" = Ethernet ] || return 0
    for type in "$port"/gid_attrs/types/*; do
        index=${type##*/}
        case $(cat "$type" 2> /dev/null) in
        'RoCE v2') ;;
        *) continue ;;
        esac
        case $(cat "$port/gids/$index") in
        0000:0000:0000:0000:0000:0000:0000:0000) ;;
        fe80:*) found=${found:-$index} ;; # only where there is no other
        *) found=$index && break ;;
        esac
    done
    [ -n "$found" ] || {
        echo "$1 port $2 has no address for RoCE v2: its interface is down or has no IP address" >&2
        exit 1
    }
    echo "$found"
}
# Runs a program as server and as client on this host, both with the same device.
with_itself() { # TCP-PORT SECONDS COMMAND...
    tcp=$1 seconds=$2
    shift 2
    said=$(mktemp -d) || exit 1
    trap 'rm -rf "$said"' EXIT
    timeout "$seconds" "$@" -p "$tcp" > "$said/server" 2>&1 &
    server=$!
    tries=0
    until timeout "$seconds" "$@" -p "$tcp" 127.0.0.1 > "$said/client" 2>&1; do
        tries=$((tries + 1))
        # Retry until the server listens, but not once it has ended.
        if [ "$tries" -ge 5 ] || ! kill -0 "$server" 2> /dev/null; then
            kill "$server" 2> /dev/null
            cat "$said/server" "$said/client" >&2
            exit 1
        fi
        sleep 1
    done
    wait "$server" || {
        cat "$said/server" >&2
        exit 1
    }
    cat "$said/client"
}
loopback() { # DEVICE PORT TCP-PORT
    need ibv_rc_pingpong timeout
    gid=$(gid_index "$1" "$2") || exit 1
    with_itself "$3" 20 ibv_rc_pingpong -d "$1" -i "$2" ${gid:+-g "$gid"} -n 100
}
write_bandwidth() { # DEVICE PORT TCP-PORT
    need ib_write_bw timeout
    gid=$(gid_index "$1" "$2") || exit 1
    cat "$devices/$1/ports/$2/rate"
    with_itself "$3" 60 ib_write_bw -d "$1" -i "$2" ${gid:+-x "$gid"} -s 1048576 -D 5 --report_gbits -F
}
all_reduce() { # GPU-ADDRESS...
    need all_reduce_perf timeout
    cat "/sys/bus/pci/devices/$1/vendor" "/sys/bus/pci/devices/$1/device"
    timeout 300 all_reduce_perf -b 16G -e 16G -g "$#"
}
