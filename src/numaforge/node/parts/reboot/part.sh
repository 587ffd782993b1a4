# shellcheck shell=sh
# The boot that makes true what only a boot can, and the one that takes it back.

reboot_apply() {
    if ! any_pending new; then return; fi
    await_boot new
}
reboot_undo() { :; } # what was booted is put back first: see reboot_start
reboot_start() {     # NEW|OLD
    if [ "$1" = new ] || ! any_pending old; then return; fi
    await_boot old
}
reboot_by_hand() { printf 'systemctl reboot; '; }
any_pending() { # NEW|OLD
    for each in $UPWARDS; do
        if provides "$each" pending && call "$each" pending "$1"; then return 0; fi
    done
    return 1
}
