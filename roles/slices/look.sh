# shellcheck shell=sh

look_system() { # RECORD SLICE...
    tell_record recorded "$1"
    shift
    systemctl show -p Id -p AllowedCPUs "$@" 2> /dev/null | while IFS= read -r line; do
        if [ -n "$line" ]; then printf '%s %s\n' "${line%%=*}" "${line#*=}"; else echo next; fi
    done
    echo next
    for slice; do
        file=/sys/fs/cgroup/$slice/cpuset.cpus.effective
        if [ ! -e "$file" ]; then continue; fi
        cpus=
        IFS= read -r cpus < "$file"
        printf 'effective %s %s\n' "$slice" "$cpus"
    done
}
