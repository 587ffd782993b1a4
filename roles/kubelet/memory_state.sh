# shellcheck shell=sh
# What the kubelet's memory manager has kept of NUMA nodes, beside what they have in this boot. The kernel lies elsewhere
# after each boot, and takes some tens of MiB from another NUMA node (KASLR, kubernetes/kubernetes#131253); the kubelet
# would not start with it (policy Static: "the expected machine state is different from the real one"). No container has
# outlived the boot: pods are admitted anew.

memory_kept() { # FILE: lines "NODE BYTES" of a state file, of memory that is not in huge pages
    grep -o '"[0-9]*":{"numberOfAssignments"\|"memory":{"total":[0-9]*' "$1" | while IFS= read -r found; do
        case $found in
        *numberOfAssignments*) node=${found#\"} node=${node%%\"*} ;;
        *) printf '%s %s\n' "$node" "${found##*:}" ;;
        esac
    done
}
memory_present() { # FOLDER NODE: the same of the machine, as the kubelet counts it
    kib=$(sed -n 's/^Node [0-9]* MemTotal: *\([0-9]*\) kB.*/\1/p' "$1/node$2/meminfo" 2> /dev/null)
    if [ -z "$kib" ]; then return 1; fi
    for pool in "$1/node$2"/hugepages/hugepages-*kB; do
        [ -e "$pool/nr_hugepages" ] || continue
        size=${pool##*/hugepages-}
        kib=$((kib - ${size%kB} * $(cat "$pool/nr_hugepages")))
    done
    echo "$((kib * 1024)) bytes"
}
put_memory_state_aside() { # FILE FOLDER: where a NUMA node of the kernel's FOLDER has other memory than the file says
    if [ ! -s "$1" ]; then return; fi
    memory_kept "$1" | while read -r node bytes; do
        now=$(memory_present "$2" "$node") || now="no memory"
        if [ "$now" = "$bytes bytes" ]; then continue; fi
        echo "NUMA node $node has $now in this boot, and $1 says $bytes: it is now $1.earlier-boot" >&2
        mv -f "$1" "$1.earlier-boot"
        break
    done
}
