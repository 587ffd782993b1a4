# shellcheck shell=sh
# Which modules are loaded.

tell_modules() { # MODULE...
    for module in "$@"; do
        [ ! -d "/sys/module/$module" ] || printf 'module %s\tloaded\n' "$module"
    done
}

# Prints who manages the memory of GPUs, and how much of it the kernel has, in kB by NUMA node.

tell_gpu_memory() { # NUMA-NODE...
    sed -n 's/^CoherentGPUMemoryMode: "\(..*\)"$/gpu-memory mode\t\1/p; s/^CoherentGPUMemoryMode: ""$/gpu-memory mode\t""/p' \
        /proc/driver/nvidia/params 2> /dev/null
    for node in "$@"; do
        awk -v node="$node" '$3 == "MemTotal:" { print "gpu-memory node-" node "\t" $4 }' \
            "/sys/devices/system/node/node$node/meminfo" 2> /dev/null
    done
}
