# shellcheck shell=sh
# PCIe access control after the boot. `masks` has a line "ADDRESS VENDOR:DEVICE MASK" for each bridge.

pcie_acs_apply() { :; } # the kernel sets it at boot
pcie_acs_undo() { :; }
pcie_acs_prove() { # NEW|OLD
    [ "$1" = new ] || return 0
    while read -r address ids mask <&3; do
        found=$(bridge_ids "$address") || found=nothing
        why="the bridge $address is $found, not $ids: PCI addresses have changed; plan again"
        [ "$found" = "$ids" ] || return 1
        why="the access control of the bridge $address could not be read"
        control=$(access_control "$address") || return 1
        why="the kernel has not set $mask on the bridge $address (it has $control): it may not know pci=config_acs="
        controls_as "$control" "$mask" || return 1
    done 3< "$PART/masks"
}
