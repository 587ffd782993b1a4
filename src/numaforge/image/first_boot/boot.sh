# shellcheck shell=sh
# Runs before each start of the kubelet on a node that plans itself: `boot` once per boot, `guard` before each start.
# Does nothing where the plan's inputs are unchanged and the written files intact; otherwise numaforge plans the node
# again. PROGRAM, STATE, TRANSACTIONS, RUN, ISSUE, REPORT_UNIT and UNIT_FOLDERS are variables. STATE/trial has a plan that
# is tried, and STATE/failed one that was undone.

LOCK_SECONDS=900 # of the 1800 that systemd gives a start of the kubelet

# Prints a line "NAME TEXT" for each input of a plan. Reads only the kernel and files, asks no driver.
inputs() {
    tell_first machine-id /etc/machine-id
    tell_first system-uuid /sys/class/dmi/id/product_uuid
    tell_first cpus /sys/devices/system/cpu/present
    tell_first kernel /proc/sys/kernel/osrelease
    kept=$(cat "$STATE/inputs" 2> /dev/null) tried=$(cat "$STATE/trial/inputs" "$STATE/failed/inputs" 2> /dev/null)
    for meminfo in /sys/devices/system/node/node*/meminfo; do
        node=${meminfo%/meminfo}
        while read -r _ _ what amount _; do
            if [ "$what" = MemTotal: ]; then tell_memory "memory-of-NUMA-node-${node##*/node}" "$amount"; fi
        done < "$meminfo"
    done 2> /dev/null
    for device in /sys/bus/pci/devices/*; do
        class=
        read -r class < "$device/class"
        case $class in
        0x0300* | 0x0302* | 0x0380* | 0x1200* | 0x0200* | 0x0207*)
            if [ ! -e "$device/physfn" ]; then # virtual functions come later, or not at all
                read -r vendor < "$device/vendor" && read -r model < "$device/device" &&
                    echo "PCI-function-${device##*/} ${vendor#0x}:${model#0x}"
            fi
            ;;
        esac
    done 2> /dev/null
    for module in nvidia amdgpu; do tell_first "driver-$module" "/sys/module/$module/version"; done
    while IFS=': ' read -r name value; do
        if [ "$name" = CoherentGPUMemoryMode ]; then echo "GPU-memory-mode ${value:-default}"; fi
    done 2> /dev/null < /proc/driver/nvidia/params
    read -r arguments < /proc/cmdline
    for word in $arguments; do
        case $word in numaforge.profile=*) echo "profile-of-kernel ${word#*=}" ;; esac
    done
    tell_files /etc/numaforge/boot.yaml /etc/numaforge/profile.yaml /etc/numaforge/profiles/*.yaml "$PROGRAM"
    tell_kubelet_files
}
tell_kubelet_files() { # its unit with environment files, and what STATE/watched lists: its program, its configuration
    set --
    for folder in $UNIT_FOLDERS; do
        case $folder in /lib/*) [ ! -L /lib ] || continue ;; esac
        set -- "$@" "$folder/kubelet.service" "$folder"/kubelet.service.d/*.conf
    done
    others=$(sed -n '/=-*\/run\/numaforge\//d; s/^EnvironmentFile=-*//p' "$@")
    while IFS= read -r path; do # a folder stands for its drop-ins
        if [ -d "$path" ]; then set -- "$@" "$path"/*.conf; else set -- "$@" "$path"; fi
    done << END
$others
$(cat "$STATE/watched")
END
    tell_files "$@"
} 2> /dev/null
tell_files() { # PATH...: those that exist, except our drop-ins
    for path; do
        shift
        case ${path##*/} in *numaforge*.conf) continue ;; esac
        [ ! -f "$path" ] || set -- "$@" "$path"
    done
    [ "$#" -eq 0 ] || cksum "$@" | while read -r sum size file; do echo "file-$file $sum-$size"; done
}
# The kernel takes its own memory from different NUMA nodes at each boot: 45 MiB have been seen to move. A difference of
# up to 64 MiB, or a 64th, counts as unchanged; the kubelet's own state is handled before each of its starts.
tell_memory() { # NAME KIB
    near_one_in "$kept" "$@" || near_one_in "$tried" "$@" || was=$2
    echo "$1 $was kB"
}
near_one_in() { # INPUTS NAME KIB: sets `was`
    case $1 in
    *"$2 "*)
        was=${1#*"$2 "} was=${was%% *}
        moved=$(($3 - was)) moved=${moved#-} near=$((was / 64))
        [ "$moved" -le 65536 ] || [ "$moved" -le "$near" ]
        ;;
    *) return 1 ;;
    esac
}
tell_first() { # NAME FILE
    text=
    if IFS= read -r text < "$2" && [ -n "$text" ]; then echo "$1 $text"; fi
} 2> /dev/null

as_planned() { # the inputs of the plan in effect, or on trial, are unchanged, and its written files are intact
    if is_of "$STATE" && is_intact "$STATE"; then return; fi
    on_trial
}
is_of() { cmp -s "$RUN/inputs" "$1/inputs"; } # FOLDER
is_intact() { sha256sum -c --status "$1/files" 2> /dev/null; }
on_trial() { # until it is confirmed or undone; a change that restarts the kubelet itself starts it as it goes back, too
    is_of "$STATE/trial" && id=$(readlink "$TRANSACTIONS/current") && IFS= read -r state < "$TRANSACTIONS/$id/state" || return
    case $state in
    confirming | "parked reboot") is_intact "$STATE/trial" ;; # pods leave only with a kubelet
    start\ * | prove\ *) grep -qx 'KUBELET_RESTART yes' "$TRANSACTIONS/$id/settings" ;;
    *) return 1 ;;
    esac
} 2> /dev/null
complain() { # WHY
    show "the kubelet is not started: $1"
    return 1
}
last_message() { # FILE: each message begins with "numaforge: "
    reason=
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in "numaforge: "*) reason=${line#numaforge: } ;; *) reason=$reason${reason:+$newline}$line ;; esac
    done < "$1"
    printf '%s\n' "$reason"
}
show() { # TEXT: where it is visible without a login
    set -- "numaforge: $1"
    printf '%s\n' "$1" >&2
    {
        mkdir -p "${ISSUE%/*}" /run/motd.d
        printf '%s\n' "$1" | sed 's/\\/\\\\/g' > "$ISSUE" # agetty reads escapes there
        printf '%s\n' "$1" > /run/motd.d/numaforge
        printf '\n%s\n' "$1" > /dev/console
        systemctl --no-block start "$REPORT_UNIT" # reports to the cluster, if the node has joined before
    } 2> /dev/null
}
quiet() { rm -f "$ISSUE" /run/motd.d/numaforge; }

# A power cut leaves files that the kubelet had just written empty, and with those it never starts again.
drop_empty_certificate() { # FOLDER
    for each in "$1/kubelet.crt" "$1/kubelet.key"; do
        if [ -e "$each" ] && [ ! -s "$each" ]; then
            resolve "$1/." && rm -f "$1/kubelet.crt" "$1/kubelet.key" &&
                echo "$each is empty, and removed with its other half: the kubelet makes them anew" >&2
        fi
    done
}

before_kubelet() {
    umask 022
    private_folder "$RUN" && exec 9> "$RUN/lock" || return 1
    if ! flock -w "$LOCK_SECONDS" 9; then
        complain "another start of it has planned this node for $LOCK_SECONDS s: see systemctl status numaforge-boot.service"
        return 1
    fi
    drop_empty_certificate /var/lib/kubelet/pki
    inputs > "$RUN/inputs"
    if ! as_planned; then
        if ! "$PROGRAM" boot 2> "$RUN/said"; then
            complain "$(last_message "$RUN/said")"
            cat "$RUN/said" >&2 # what came before the reason
            return 1
        fi
        cat "$RUN/said" >&2
    fi
    if is_of "$STATE/failed"; then
        show "the kubelet runs with the earlier plan: $(cat "$STATE/failed/why")"
    else
        quiet
    fi
}
