#!/bin/sh
# Make root.img, vmlinuz and initrd.img in the folder $3 from the archives $1 (Debian) and $2 (what is laid over it);
# the disk has $4 bytes. Runs as root, or as root of a user namespace.
set -eu
base=$1 overlay=$2 folder=$3 bytes=$4
root=$folder/root
trap 'rm -rf "$root"' EXIT

mkdir "$root"
tar -C "$root" --numeric-owner -xf "$base" --exclude='./dev/*'
tar -C "$root" --keep-directory-symlink -xf "$overlay"

# What "kubeadm join" writes on a node, written by kubeadm itself. It names the host in the flags only when the node's
# name differs from the hostname, which is not so here.
cat >"$root/kubeadm.yaml" <<EOF
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration:
  name: $(hostname)
  criSocket: unix:///run/containerd/containerd.sock
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $("$root/usr/bin/kubeadm" version -o short)
EOF
mkdir -p "$root/var/lib/kubelet" "$root/etc/kubernetes/manifests" "$root/etc/kubernetes/pki" "$root/var/lib/lab"
KUBEADM_INIT_DRYRUN_DIR=/var/lib/kubelet chroot "$root" \
    /usr/bin/kubeadm init phase kubelet-start --config /kubeadm.yaml --dry-run
rm "$root/kubeadm.yaml"
chmod 700 "$root/var/lib/kubelet"

chroot "$root" useradd --create-home --shell /bin/bash lab
chroot "$root" useradd --create-home --shell /bin/bash admin
chroot "$root" usermod --password '*' lab
chroot "$root" usermod --password '*' admin
chroot "$root" systemctl --quiet enable systemd-networkd containerd kubelet ssh \
    lab-identity lab-devices lab-images lab-deviceplugin lab-resume
chroot "$root" systemctl --quiet mask getty@tty1.service apt-daily.timer apt-daily-upgrade.timer fstrim.timer \
    e2scrub_all.timer e2scrub_reap.service dpkg-db-backup.timer systemd-firstboot.service \
    serial-getty@ttyS0.service cni-dhcp.socket rdma-load-modules@.service rdma-ndd.service
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/resolv.conf" "$root/etc/machine-id"
printf 'nameserver 10.0.2.3\n' >"$root/etc/resolv.conf"
printf '/dev/vda / ext4 defaults 0 1\n' >"$root/etc/fstab"
printf 'LANG=C.UTF-8\n' >"$root/etc/default/locale"

mv "$root"/boot/vmlinuz-* "$folder/vmlinuz"
mv "$root"/boot/initrd.img-* "$folder/initrd.img"
chmod 644 "$folder/vmlinuz" "$folder/initrd.img"
truncate -s "$bytes" "$folder/root.img"
mke2fs -q -t ext4 -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$folder/root.img"
