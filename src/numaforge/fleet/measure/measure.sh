# shellcheck shell=sh
# Runs programs that measure, with limits of time and output bytes, and prints the printable characters of their output.
# Changes nothing on the node except its load.

MOST_BYTES=32768
KILL_AFTER=2

tell_tools() { # NAME=ARGUMENT...: prints the version of each installed program: the first line that has one
    for tool; do
        name=${tool%%=*}
        if ! command -v "$name" > /dev/null 2>&1; then continue; fi
        said=$(in_bounds 5 "$name" "${tool#*=}" | sed -n '/[0-9]\.[0-9]/{s/^[[:space:]]*//;p;q;}' | cut -c 1-80)
        printf '%s %s\n' "$name" "$said"
    done
}
tell_tracers() { # those that rtla reads; systemd mounts their file system
    for folder in /sys/kernel/tracing /sys/kernel/debug/tracing; do
        if [ -r "$folder/available_tracers" ]; then
            tr ' ' '\n' < "$folder/available_tracers" | grep -x -e timerlat -e osnoise
            return 0
        fi
    done
}
in_bounds() { # SECONDS COMMAND...: prints its output, up to the limits
    limit=$1
    shift
    LC_ALL=C timeout -k "$KILL_AFTER" "$limit" "$@" 2>&1 < /dev/null |
        timeout -k "$KILL_AFTER" "$((limit + KILL_AFTER + 1))" head -c "$MOST_BYTES" | tr -cd '\11\12\15\40-\176'
}
# NVIDIA's and AMD's own services keep the devices open all the time without load on them: they do not count.
tell_gpu_holders() {
    pid=
    # shellcheck disable=SC2012 # where the links lead, in one process; find of busybox does not say it
    ls -l /proc/[0-9]*/fd 2> /dev/null |
        sed -n -e '/^\/proc\/[0-9]*\/fd:$/p' -e '/ -> \/dev\/nvidia[0-9][0-9]*$/p' \
            -e '/ -> \/dev\/kfd$/p' -e '/ -> \/dev\/dri\/renderD[0-9]*$/p' |
        while IFS= read -r line; do
            case $line in
            /proc/*) pid=${line#/proc/} && pid=${pid%%/*} && told= ;;
            *)
                if [ -n "$told" ]; then continue; fi
                told=yes name=
                IFS= read -r name < "/proc/$pid/comm" || continue
                case $name in
                nvidia-persiste* | nv-hostengine | nv-fabricmanage* | dcgm* | nvidia-device-p* | nvidia-smi | gpu-feature-dis*) ;;
                *) printf 'holds %s %s %s\n' "$pid" "$name" "${line##*-> }" ;;
                esac
                ;;
            esac
        done
} 2> /dev/null
# Keeps each of these CPUs busy until end_load, for at most SECONDS. Each loop looks for the file itself: a signal that
# reaches timeout before it knows its child would leave the child running.
begin_load() { # SECONDS CPU...
    limit=$1 loads=
    shift
    : > "$WORK/load"
    for cpu; do
        timeout -k "$KILL_AFTER" "$limit" taskset -c "$cpu" sh -c "$BUSY" "$WORK/load" > /dev/null 2>&1 < /dev/null &
        loads="$loads $!"
    done
}
# shellcheck disable=SC2016 # what the other shell expands
BUSY='while [ -e "$0" ]; do i=0; while [ "$((i += 1))" -lt 10000 ]; do :; done; done'
end_load() {
    rm -f "$WORK/load"
    for load in $loads; do wait "$load" 2> /dev/null; done
    loads=
}
# One run: its output, then how it ended, in a part of its own: 124 and 137 are the time limit, `flood` the limit of
# bytes. No run starts after the deadline.
run_one() { # ID SECONDS LOAD-CPUS COMMAND...
    id=$1 seconds=$2 busy=$3
    shift 3
    read -r up _ < /proc/uptime
    if [ "${up%%.*}" -ge "$DEADLINE" ]; then
        begin_part "how $id"
        echo late
        return 0
    fi
    # shellcheck disable=SC2086 # CPUs
    begin_load "$((seconds + 2 * KILL_AFTER))" $busy
    begin_part "run $id"
    {
        LC_ALL=C timeout -k "$KILL_AFTER" "$seconds" "$@" 2>&1 < /dev/null
        echo "$?" > "$WORK/ended"
    } | timeout -k "$KILL_AFTER" "$((seconds + 2 * KILL_AFTER))" head -c "$MOST_BYTES" > "$WORK/said"
    tr -cd '\11\12\15\40-\176' < "$WORK/said"
    end_load
    begin_part "how $id"
    how=$(cat "$WORK/ended" 2> /dev/null)
    if [ "$(wc -c < "$WORK/said")" -ge "$MOST_BYTES" ]; then how=flood; fi
    echo "${how:-unknown}"
    rm -f "$WORK/said" "$WORK/ended"
}
# Works in a temporary folder, which it removes.
measure_all() {
    WORK=$(mktemp -d) || return 1
    trap 'end_load; rm -rf "$WORK"' EXIT
    read -r up _ < /proc/uptime
    DEADLINE=$((${up%%.*} + MOST_SECONDS))
    run_each
}
# Writes a new file and renames it over the old one: no reader sees half a file.
keep_measurement() { # PATH, the text on stdin
    folder=${1%/*}
    mkdir -p "$folder" && chmod 755 "$folder" || return 1
    staged="$folder/.measured.$$"
    umask 077
    if cat > "$staged" && chmod 644 "$staged" && sync "$staged" && mv -f "$staged" "$1"; then
        sync "$folder"
        return 0
    fi
    rm -f "$staged"
    return 1
}
tell_kept() { # PATH
    if [ -f "$1" ]; then head -c 1048576 "$1"; fi
}
