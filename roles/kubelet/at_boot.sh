# shellcheck shell=sh
# Before the kubelet starts for the first time in a boot: puts its memory manager's state aside where it does not fit.
# Arguments: the state file, where the kernel shows NUMA nodes, and what is there once this has run in a boot.

if [ -e "$3" ]; then exit; fi
: > "$3" || exit
put_memory_state_aside "$1" "$2"
