# shellcheck shell=sh

look_system() { # RECORD SLICE...
    sed -n 's/^[^#]/recorded &/p' "$1" 2> /dev/null
    shift
    systemctl show -p Id -p AllowedCPUs "$@" 2> /dev/null | sed -e 's/=/ /' -e 's/^$/next/'
    echo next
    for slice; do
        file=/sys/fs/cgroup/$slice/cpuset.cpus.effective
        [ ! -e "$file" ] || echo "effective $slice $(cat "$file")"
    done
}
