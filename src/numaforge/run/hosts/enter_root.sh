# shellcheck shell=sh
# Runs a command in a root, with a /proc and a /dev where it has none: sh -c THIS sh ROOT COMMAND.
# Both are mounted in a namespace of the command's own, so nothing is left of them when it ends, however it ends. Where no
# namespace is allowed (in a container that builds), it gets a /dev/null alone, which is removed again.
# shellcheck disable=SC2016 # the shell within expands it
within='
provide_proc() {
    if [ -L "$1" ] || [ ! -d "$1" ] || [ -e "$1/self" ]; then return; fi
    mount -t proc -o nosuid,nodev,noexec proc "$1" || return
    for kept in sys irq bus fs sysrq-trigger; do # what is the kernel of this machine
        if [ ! -e "$1/$kept" ]; then continue; fi
        mount --bind "$1/$kept" "$1/$kept" && mount -o remount,bind,ro "$1/$kept" || {
            umount -l "$1"
            return
        }
    done
}
provide_dev() {
    if [ -L "$1" ] || [ ! -d "$1" ] || [ -e "$1/null" ]; then return; fi
    mount -t tmpfs -o mode=0755,nosuid,size=64m tmpfs "$1" || return
    for node in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "$1/${node%:*}" c 1 "${node#*:}" || { # in a user namespace
            : > "$1/${node%:*}" && mount --bind "/dev/${node%:*}" "$1/${node%:*}"
        }
    done
    mkdir -m 1777 "$1/shm"
    ln -s /proc/self/fd "$1/fd"
}
{ provide_proc "$1/proc"; provide_dev "$1/dev"; } 2> /dev/null
exec chroot "$1" sh -c "$2"
'
if unshare -m true 2> /dev/null; then
    exec unshare -m sh -c "$within" sh "$1" "$2"
fi
if [ -d "$1/dev" ] && [ ! -L "$1/dev" ] && [ ! -e "$1/dev/null" ]; then
    trap 'rm -f "$1/dev/null"' EXIT
    trap 'exit 143' HUP INT TERM
    mknod -m 666 "$1/dev/null" c 1 3 2> /dev/null
fi
chroot "$1" sh -c "$2"
