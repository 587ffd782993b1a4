# shellcheck shell=sh
# Before the kubelet's first start in a boot: puts its memory manager's state aside where it does not fit.
# Arguments: the state file, the kernel's folder of NUMA nodes, and a file that marks that this has run in the boot.

if [ -e "$3" ]; then exit; fi
: > "$3" || exit
put_memory_state_aside "$1" "$2"
