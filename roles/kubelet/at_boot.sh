# shellcheck shell=sh
# Before the kubelet starts for the first time in a boot: puts aside what its memory manager has kept of NUMA nodes whose
# memory has changed with that boot, because it would not start with it (policy Static: "the expected machine state is
# different from the real one"). The kernel lies elsewhere after each boot, and takes some tens of MiB from another NUMA
# node (KASLR, kubernetes/kubernetes#131253). No container has outlived the boot: pods are admitted anew.
# Arguments: the state file, where the kernel shows NUMA nodes, and what is there once this has run in a boot.

recorded() { # lines "NODE BYTES" of the state file: memory that is not in huge pages
    grep -o '"[0-9]*":{"numberOfAssignments"\|"memory":{"total":[0-9]*' "$state" | while IFS= read -r found; do
        case $found in
        *numberOfAssignments*) node=${found#\"} node=${node%%\"*} ;;
        *) printf '%s %s\n' "$node" "${found##*:}" ;;
        esac
    done
}
present() { # NODE: the same of the machine, as the kubelet counts it
    kib=$(sed -n 's/^Node [0-9]* MemTotal: *\([0-9]*\) kB.*/\1/p' "$nodes/node$1/meminfo" 2> /dev/null)
    if [ -z "$kib" ]; then return 1; fi
    for pool in "$nodes/node$1"/hugepages/hugepages-*kB; do
        [ -e "$pool/nr_hugepages" ] || continue
        size=${pool##*/hugepages-}
        kib=$((kib - ${size%kB} * $(cat "$pool/nr_hugepages")))
    done
    echo "$((kib * 1024)) bytes"
}

state=$1 nodes=$2 once=$3
if [ -e "$once" ]; then exit; fi
: > "$once" || exit
if [ ! -s "$state" ]; then exit; fi
recorded | while read -r node bytes; do
    now=$(present "$node") || now="no memory"
    if [ "$now" = "$bytes bytes" ]; then continue; fi
    echo "NUMA node $node has $now in this boot, and $state says $bytes: it is now $state.earlier-boot" >&2
    mv -f "$state" "$state.earlier-boot"
    break
done
