# shellcheck shell=sh
# Prints what runs on which CPU: the kernel's interrupt counts twice, and between them every process.

tell_visitors() { # SECONDS
    sed 's/^/before /' /proc/interrupts
    for folder in /proc/[0-9]*; do
        # A kernel thread has no memory of its own.
        cpus=$(sed -n -e 's/^Cpus_allowed_list:[[:space:]]*//p' -e 's/^VmSize:.*/user/p' "$folder/status" 2> /dev/null)
        case $cpus in
        user*) printf 'process %s\t%s\t%s\t%s\n' "${folder#/proc/}" "${cpus##*[!0-9,-]}" \
            "$(head -n 1 "$folder/comm" 2> /dev/null)" "$(sed -n 's/^0:://p' "$folder/cgroup" 2> /dev/null)" ;;
        esac
    done
    sleep "$1"
    sed 's/^/after /' /proc/interrupts
}
