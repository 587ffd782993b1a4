# shellcheck shell=sh
# Compares the NUMA nodes' memory in the state of the kubelet's memory manager with that in this boot. The kernel's load
# address changes with each boot (KASLR), so it takes some tens of MiB from another NUMA node
# (kubernetes/kubernetes#131253); the kubelet would not start with the old state (policy Static: "the expected machine
# state is different from the real one"). No container has outlived the boot: pods are admitted again.

memory_kept() { # FILE: prints "NODE BYTES" for each NUMA node of a state file, without huge pages
    grep -o '"[0-9]*":{"numberOfAssignments"\|"memory":{"total":[0-9]*' "$1" | while IFS= read -r found; do
        case $found in
        *numberOfAssignments*) node=${found#\"} node=${node%%\"*} ;;
        *) printf '%s %s\n' "$node" "${found##*:}" ;;
        esac
    done
}
memory_present() { # FOLDER NODE: prints "BYTES bytes" that the machine has, as the kubelet counts them
    kib=$(sed -n 's/^Node [0-9]* MemTotal: *\([0-9]*\) kB.*/\1/p' "$1/node$2/meminfo" 2> /dev/null)
    if [ -z "$kib" ]; then return 1; fi
    for pool in "$1/node$2"/hugepages/hugepages-*kB; do
        [ -e "$pool/nr_hugepages" ] || continue
        size=${pool##*/hugepages-}
        kib=$((kib - ${size%kB} * $(cat "$pool/nr_hugepages")))
    done
    echo "$((kib * 1024)) bytes"
}
put_memory_state_aside() { # FILE FOLDER: if a NUMA node below the kernel's FOLDER has other memory than in the file
    if [ ! -s "$1" ]; then return; fi
    memory_kept "$1" | while read -r node bytes; do
        now=$(memory_present "$2" "$node") || now="no memory"
        if [ "$now" = "$bytes bytes" ]; then continue; fi
        resolve "$1" && mv -f "$target" "$target.earlier-boot" &&
            echo "NUMA node $node has $now in this boot, and $1 says $bytes: it is now $1.earlier-boot" >&2
        break
    done
}
