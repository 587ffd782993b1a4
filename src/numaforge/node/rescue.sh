# shellcheck shell=sh
# A boot that ended in emergency or rescue mode: a file system could not be mounted, or the kernel command line asked
# for it. The change may be the cause. It is undone, and the node boots once more; if that fails, too, an admin must
# act.

rescue() { # by systemd
    umask 022
    # The change is not to blame where the boot had come up before, or where the change began in this boot.
    if [ "$(noted boot)" = "$(boot_id)" ]; then return; fi
    writable
    if ended || unchanged; then return; fi
    hold || return 1
    if [ -e "$FOLDER/revert" ]; then turn_back "$(cat "$FOLDER/revert")"; fi
    turn_back "the boot ended in emergency or rescue mode (\"$(noted state)\")"
    echo "numaforge undoes the change $ID of this node: $(noted why)"
    collect discard
    booting=yes
    count_as_touched
    undo_all
    if [ -n "$amiss" ]; then echo "$amiss. By hand: $(by_hand "$stuck")"; fi
    if [ -e "$FOLDER/rescued" ]; then
        echo "The node boots into this mode without the change, too. What was kept is in $FOLDER/backup. After a" \
            "boot that comes up the change is ended by itself."
        return 1
    fi
    record rescued "$(boot_id)" state reboot && sync || return 1
    # The jobs of emergency mode cannot be replaced by those of an orderly reboot.
    systemctl reboot --force
}
writable() { # such a boot may not have mounted these
    mount -o remount,rw / 2> /dev/null || :
    mount -a -O no_netdev 2> /dev/null || : # /boot, and others that were not tried
}
