# shellcheck shell=sh

look_system() { # RECORD SLICE...
    tell_record recorded "$1"
    shift
    for slice; do
        unit_says "$slice" AllowedCPUs
        printf 'allowed %s %s\n' "$slice" "$unit_value"
        file=/sys/fs/cgroup/$slice/cpuset.cpus.effective
        if [ ! -e "$file" ]; then continue; fi
        cpus=
        IFS= read -r cpus < "$file"
        printf 'effective %s %s\n' "$slice" "$cpus"
    done
}
