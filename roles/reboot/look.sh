# shellcheck shell=sh
# The running kernel, and the one that the next boot would start.

look_reboot() ( # MODULE...: drivers that another kernel needs, too, where they are loaded
    set +f
    unset IFS
    running_kernel
    printf 'running %s\n' "$running"
    if ! next_entry; then
        printf 'next unknown\nmenu %s\nunknown %s\n' "$menu" "$unknown"
        return
    fi
    printf 'menu %s\nkernel %s\n' "$menu" "$entry_kernel"
    if is_running; then
        echo "next running"
        return
    fi
    printf 'next another\nversion %s\n' "$version"
    for name; do
        if [ -d "/sys/module/$name" ] && ! modinfo -k "$version" "$name" > /dev/null 2>&1; then echo "lacks-$name yes"; fi
    done
)
