# shellcheck shell=sh
# Prints what an image contains although it belongs to one machine or to the making of it: lines "RULE WHAT".

export LC_ALL=C SYSTEMD_OFFLINE=1
act=say
each() { # RULE PATH...: run "$act RULE PATH" for the paths that exist
    rule=$1
    shift
    for path; do
        if [ -e "$path" ] || [ -L "$path" ]; then "$act" "$rule" "$path"; fi
    done
}
filled() { # RULE PATH...: print the files that are not empty
    rule=$1
    shift
    for path; do
        if [ -s "$path" ]; then printf '%s %s\n' "$rule" "$path"; fi
    done
}
say() { printf '%s %s\n' "$1" "$2"; } # RULE WHAT
has_machine_id() {
    id=
    read -r id < /etc/machine-id
    case $id in '' | uninitialized) return 1 ;; esac
}

# Runs "ACTION RULE PATH" for each path that sysprep removes.
left_by_making() { # ACTION
    act=$1
    each ssh-host-keys /etc/ssh/ssh_host_*
    each identity /var/lib/systemd/random-seed /var/lib/systemd/credential.secret /etc/hostid
    # without one in /etc, systemd takes the machine-id from here: the same on all nodes
    if [ ! -L /var/lib/dbus/machine-id ]; then each identity /var/lib/dbus/machine-id; fi
    each cloud-init /var/lib/cloud/instance /var/lib/cloud/instances/*
    each leases /var/lib/dhcp/*.leases /var/lib/dhclient/* /run/systemd/netif/leases/* /var/lib/NetworkManager/*lease*
    each builder /opt/numaforge.new /opt/numaforge.old /tmp/* /var/tmp/* /root/.bash_history /root/.cache/* \
        /etc/apt/apt.conf.d/99mmdebstrap /var/cache/dnf/* /var/cache/libdnf5/*
    if [ -f /dev/null ]; then "$act" builder /dev/null; fi # written to where there was none
    each crashes /var/crash/* /var/lib/systemd/coredump/*
    each journal /var/log/journal/*
    act=say
}

tell_leftovers() {
    left_by_making say
    had_null=
    if [ -e /dev/null ]; then had_null=yes; fi
    each builder /usr/sbin/policy-rc.d # the builder needs it to the end, then removes it itself
    if [ ! -e /etc/machine-id ]; then
        say machine-id "/etc/machine-id is missing, and systemd makes none where / is read-only"
    elif has_machine_id; then
        say machine-id "/etc/machine-id is $id, on every node"
    fi
    each kubelet-state /var/lib/kubelet/*_state /var/lib/kubelet/pki/* /var/lib/kubelet/pods/* \
        /var/lib/kubelet/device-plugins/*checkpoint* /var/lib/kubelet/plugins_registry/* /var/lib/kubelet/*checkpoint*
    each cluster-login /etc/kubernetes/*.conf /etc/kubernetes/pki/*.key /var/lib/rancher/*/agent/*.key
    each generated-configuration /etc/numaforge/plan.json /var/lib/numaforge/txn /var/lib/numaforge/boot \
        /var/lib/numaforge/measured.json \
        /etc/systemd/system/numaforge-recover.service /etc/systemd/system/numaforge-rescue.service
    each cdi /etc/cdi/*.yaml /etc/cdi/*.json /var/run/cdi/*
    filled imex-nodes /etc/nvidia-imex/nodes_config.cfg
    each mig-placements /etc/numaforge/mig.json /var/lib/nvidia-mig-manager/*
    for home in /root /home/*; do filled login-keys "$home/.ssh/authorized_keys" "$home"/.ssh/id_*; done
    size=$(du -sk /var/log 2> /dev/null)
    if [ "${size%%[!0-9]*}" -gt 20480 ]; then say logs "/var/log has ${size%%[!0-9]*} KiB"; fi
    each started /var/lib/containerd/io.containerd.metadata* /var/lib/docker/containers /var/lib/crio/version
    for unit in numaforge-boot.service kubelet.service; do
        state=$(systemctl is-enabled "$unit" 2> /dev/null)
        case $state in enabled | static) ;; *) say enabled "$unit is ${state:-not there}" ;; esac
    done
    if ! said=$(/opt/numaforge/numaforge --version 2>&1); then
        say program "/opt/numaforge/numaforge does not run: $(printf '%s\n' "$said" | tail -n 1)"
    fi
    set -- /opt/numaforge/lib/numaforge/__pycache__/cli.*.pyc
    if [ ! -e "$1" ]; then say program "/opt/numaforge/lib is not compiled, so that each call compiles it again"; fi
    package_manager
    tell_package_doubt | sed 's/^/packages /'
    tell_unwritable | sed 's/^/writable /'
    tell_cmdline | sed 's/^/cmdline /'
    tell_manifest
    if [ -z "$had_null" ] && [ -f /dev/null ]; then rm -f /dev/null; fi # what this look has written
}
# Kernel parameters that a machine of the image needs, that no boot loader of the root gives, and no first boot adds.
tell_cmdline() {
    needs=/etc/numaforge/image/cmdline
    if [ ! -s "$needs" ]; then return; fi
    loader=$(cmdline_loader)
    lines=" $(boot_lines 2> /dev/null | tr -d '"\134' | tr '\n\t' '  ') "
    while read -r machine reboot parameter; do
        case $machine$lines in
        \#* | *" $parameter "*) ;;
        given*) lines="$lines$parameter " ;;
        *)
            why="$machine needs $parameter, which no boot loader of this root gives the kernel"
            if [ "$reboot" != allowed ]; then
                echo "$why, and its profile lets no reboot add it (maintenance.reboot)"
            elif [ "$loader" = none ]; then
                echo "$why, and the first boot finds none that it could change"
            fi
            ;;
        esac
    done < "$needs"
}
boot_lines() { # print what the root's boot loaders, and the files that they are made of, give a kernel
    sed -n 's/^[[:space:]]*linux[a-z0-9]*[[:space:]]*[^[:space:]]*//p' /boot/grub/grub.cfg /boot/grub2/grub.cfg
    sed -n 's/^GRUB_CMDLINE_LINUX\(_DEFAULT\)\{0,1\}=//p' /etc/default/grub /etc/default/grub.d/*.cfg | tr -d "'"
    for folder in /boot /efi /boot/efi; do
        sed -n 's/^options[[:space:]]*//p' "$folder"/loader/entries/*.conf
        for kernel in "$folder"/EFI/Linux/*.efi; do
            [ ! -f "$kernel" ] || python3 -c "$UNIFIED_KERNEL" "$kernel"
        done
    done
    sed 's/^/ /' /etc/kernel/cmdline /usr/lib/kernel/cmdline /etc/cmdline.d/*.conf
    sed -n 's/^kargs *= *\[\(.*\)\].*/\1/p' /usr/lib/bootc/kargs.d/*.toml | tr -d "'\"" | tr ',' ' '
}
# Prints the section .cmdline of a unified kernel image, a file in PE's format.
UNIFIED_KERNEL='
import struct, sys
image = open(sys.argv[1], "rb").read()
header, = struct.unpack_from("<I", image, 60)
count, optional = struct.unpack_from("<H12xH", image, header + 6)
for section in range(count):
    name, size, place = struct.unpack_from("<8sI8xI", image, header + 24 + optional + 40 * section)
    if name.rstrip(b"\0") == b".cmdline":
        print(image[place:place + size].decode(errors="replace").strip("\0"))
'
# By the mounts that the root has for a boot: those of a build are others.
tell_unwritable() { # of the folders in WRITTEN_BELOW
    mounts=$(boot_mounts)
    for folder in $WRITTEN_BELOW; do
        existing=$folder
        until [ -e "$existing" ]; do existing=${existing%/*} existing=${existing:-/}; done
        if [ ! -d "$existing" ]; then
            echo "$folder is below $existing, which is not a folder"
            continue
        fi
        mounted_read_only "$(readlink -f "$existing")" || continue
        echo "$folder is on $at, which $by mounts read-only"
    done
}
boot_mounts() { # print "FILE MOUNT-POINT OPTIONS" for each mount in fstab and in units
    while read -r what mount _ options _; do
        case $what in '' | \#*) ;; *) echo "/etc/fstab $mount ${options:-defaults}" ;; esac
    done 2> /dev/null < /etc/fstab
    for unit in /usr/lib/systemd/system/*.mount /etc/systemd/system/*.mount; do
        [ -f "$unit" ] || continue
        mount=$(sed -n 's/^Where=//p' "$unit")
        options=$(sed -n 's/^Options=//p' "$unit" | tr -d ' ')
        echo "$unit $mount ${options:-defaults}"
    done
}
mounted_read_only() { # FOLDER, among $mounts: sets `at` and `by`
    at='' by='' how=''
    while read -r file mount options; do
        case $1/ in
        "${mount%/}"/*) if [ "${#mount}" -ge "${#at}" ]; then at=$mount by=$file how=$options; fi ;;
        esac
    done << EOF
$mounts
EOF
    case ,$how, in *,ro,*) return 0 ;; *) return 1 ;; esac
}
tell_manifest() {
    manifest=/etc/numaforge/image/manifest.json
    if [ ! -s "$manifest" ]; then
        say manifest "$manifest is missing"
        return
    fi
    sed -n 's/^ *"\(\/[^"]*\)": "\([0-9a-f]\{64\}\)",\{0,1\}$/\2  \1/p' "$manifest" |
        sha256sum -c --quiet 2> /dev/null | sed 's/^/manifest /'
    sed -n '/^  "held": \[$/,/^  \]/s/^    "\([^"]*\)",\{0,1\}$/\1/p' "$manifest" | while read -r package; do
        is_held "$package" || say held "$package is not held"
    done
}
