# shellcheck shell=sh
# What a boot is: one of the kernel, and one start of its userspace. `systemctl soft-reboot` starts that anew, with all
# that reads our files, and keeps the kernel and /run. What systemd does not answer within ASK_SECONDS is unknown, after
# a few attempts.

ASK_SECONDS=10

has_systemd() { [ -d /run/systemd/system ]; } # as sd_booted(3) asks
systemd_says() { timeout "$ASK_SECONDS" systemctl show "$@" 2> /dev/null; }
kernel_boot_id() {
    read -r this_kernel < /proc/sys/kernel/random/boot_id || this_kernel=unknown
    printf '%s\n' "$this_kernel"
} 2> /dev/null
boot_id() {
    if [ -z "${this_boot-}" ]; then find_boot; fi
    printf '%s\n' "$this_boot"
}
# Each start of the userspace reaches this target once, before any unit of ours. A script that asks more than once finds it
# first.
find_boot() { # sets `this_boot`
    this_boot=$(kernel_boot_id)
    if ! has_systemd; then return; fi
    for _ in 1 2 3; do
        since=$(systemd_says -p ActiveEnterTimestampMonotonic --value local-fs.target)
        if [ -n "$since" ]; then break; fi
    done
    if [ -z "$since" ]; then # the kernel is known, at least
        known=$(noted boot 2> /dev/null)
        case $known in "$this_boot":*) since=${known#*:} ;; *) since=unknown ;; esac
    fi
    this_boot=$this_boot:$since
}
