# shellcheck shell=sh
# Before the kubelet's first start in a boot: puts its memory manager's state aside where it does not fit.
# Arguments: the state file, the kernel's folder of NUMA nodes, and a file that names the boot in which this has run.

find_boot
if [ "$(cat "$3" 2> /dev/null)" = "$this_boot" ]; then exit; fi
printf '%s\n' "$this_boot" > "$3" || exit
put_memory_state_aside "$1" "$2"
