# shellcheck shell=sh
# CPUs of systemd's slices, set at runtime: the drop-ins, which `files` writes, take effect at the next boot, and
# reloading all units would cut off GPUs (files.sh). `planned` has a line SLICE;NEW;OLD;PROOF for each slice. NEW and
# OLD are cpulists; an empty one is no restriction. PROOF is yes where NEW is planned, and empty where it is only put
# back. `record` has the lines of SLICES_RECORD, the slices' CPUs before the first plan.

system_each() { # COMMAND: run it with SLICE NEW OLD PROOF
    while IFS=";" read -r slice new old proof <&3; do "$1" "$slice" "$new" "$old" "$proof" 3<&- || return 1; done 3< "$PART/planned"
}
system_keep() { keep "$FOLDER/backup" "$SLICES_RECORD"; }
system_apply() {
    why="$SLICES_RECORD could not be written"
    write_record "$SLICES_RECORD" "the CPUs of systemd's slices before the first plan" || return 1
    system_each system_give
}
system_give() { system_set "$1" "$2"; }
system_set() { # SLICE CPUS
    why="systemctl set-property $1 AllowedCPUs=$2 failed"
    # systemd's file there repeats the drop-in, and would outlast it.
    runtime=/run/systemd/system.control/$1.d/50-AllowedCPUs.conf
    if [ -e "$runtime" ]; then had=yes; else had=; fi
    # A control group with processes keeps its CPUs when it is given none (kernel/cgroup/cpuset.c, validate_change).
    if [ -z "$2" ]; then systemctl set-property --runtime "$1" "AllowedCPUs=$(every_cpu)" || return 1; fi
    systemctl set-property --runtime "$1" "AllowedCPUs=$2" || return 1
    if [ -z "$had" ]; then rm -f "$runtime"; fi
}
every_cpu() { cat /sys/devices/system/cpu/possible; }
system_prove() { # NEW|OLD
    if [ "$1" = old ]; then return; fi
    system_each system_prove_one
}
system_prove_one() { # a slice without processes has no control group
    effective=/sys/fs/cgroup/$1/cpuset.cpus.effective
    if [ -z "$4" ] || [ ! -e "/sys/fs/cgroup/$1" ]; then return; fi
    now=$(cat "$effective" 2> /dev/null)
    if [ "$now" = "$(printf '%s' "$2" | tr ' ' ',')" ]; then return; fi
    why="$effective: wanted $2, is ${now:-not there}"
    return 1
}
system_undo() {
    stuck_here=
    system_each system_undo_one
    put_back "$FOLDER/backup" "$SLICES_RECORD" || stuck_here="$stuck_here $SLICES_RECORD"
    if [ -z "$stuck_here" ]; then return; fi
    why="not as they were:$stuck_here"
    return 2
}
system_undo_one() { system_set "$1" "$3" || stuck_here="$stuck_here $1"; }
system_by_hand() { system_each system_by_hand_one; }
system_by_hand_one() {
    if [ -z "$3" ]; then system_by_hand_one "$1" "$2" "$(every_cpu)"; fi
    printf "systemctl set-property --runtime %s 'AllowedCPUs=%s'; " "$1" "$3"
}
