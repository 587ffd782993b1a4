#!/bin/sh
# Make of the root file system $1 one that has not joined a cluster, and whose cloud-init reads a drive; then what follows
# is called.
set -eu
root=$1
shift
rm -rf "$root/var/lib/kubelet"
mkdir -m 700 "$root/var/lib/kubelet"
# Without pods there is no use for images and devices, which cost an emulated CPU a minute.
chroot "$root" systemctl --quiet disable lab-images lab-deviceplugin
# Logins, names and addresses are the lab's.
cat >"$root/etc/cloud/cloud.cfg.d/99-lab.cfg" <<EOF
datasource_list: [NoCloud]
network: {config: disabled}
disable_root: false
ssh_deletekeys: false
ssh_genkeytypes: [ed25519]
preserve_hostname: true
manage_etc_hosts: false
EOF
exec "$@"
