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
        /etc/apt/apt.conf.d/99mmdebstrap
    each crashes /var/crash/* /var/lib/systemd/coredump/*
    each journal /var/log/journal/*
    act=say
}

tell_leftovers() {
    left_by_making say
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
    tell_unwritable | sed 's/^/writable /'
    tell_manifest
}
# By the mounts that the root has for a boot: those of a build are others.
tell_unwritable() { # of the folders in WRITTEN_BELOW
    mounts=$(boot_mounts)
    for folder in $WRITTEN_BELOW; do
        existing=$folder
        until [ -e "$existing" ]; do existing=${existing%/*} existing=${existing:-/}; done
        if [ ! -d "$existing" ]; then
            echo "$folder is below $existing, which is no folder"
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
    sed -n 's/^    "\(\/[^"]*\)": "\([0-9a-f]\{64\}\)",\{0,1\}$/\2  \1/p' "$manifest" |
        sha256sum -c --quiet 2> /dev/null | sed 's/^/manifest /'
    sed -n '/^  "held": \[$/,/^  \]/s/^    "\([^"]*\)",\{0,1\}$/\1/p' "$manifest" | while read -r package; do
        if [ "$(apt-mark showhold "$package" 2> /dev/null)" != "$package" ]; then say held "$package is not held"; fi
    done
}
