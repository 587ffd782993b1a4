#!/bin/sh
# Make of a baked root file system a box for Vagrant with libvirt: box.sh ARCHIVE.tar FOLDER
# FOLDER gets node.box, the key with which vagrant logs in, and the kernel and initrd that the Vagrantfile boots it with.
# The root needs linux-image-amd64, openssh-server, sudo and dbus (PACKAGES of bake.sh). Runs as root.
set -eu
archive=$1 folder=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
mkdir -p "$root" "$folder"
tar -C "$root" --exclude='./dev/*' -xf "$archive"
cp "$(readlink -f "$root"/boot/vmlinuz-*)" "$folder/vmlinuz"
cp "$(readlink -f "$root"/boot/initrd.img-*)" "$folder/initrd"

# Who logs in: a key of this box alone, in the place of the one that everybody has.
[ -e "$folder/key" ] || ssh-keygen -q -t ed25519 -N '' -C numaforge-box -f "$folder/key"
chroot "$root" useradd --create-home --shell /bin/bash vagrant
install -d -m 700 "$root/home/vagrant/.ssh"
install -m 600 "$folder/key.pub" "$root/home/vagrant/.ssh/authorized_keys"
chroot "$root" chown -R vagrant: /home/vagrant
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/vagrant"
chmod 440 "$root/etc/sudoers.d/vagrant"

# Each machine has host keys of its own, and an address of the network that it is in.
mkdir -p "$root/etc/systemd/system/ssh.service.d" "$root/etc/systemd/network"
printf '[Service]\nExecStartPre=\nExecStartPre=/usr/bin/ssh-keygen -A\nExecStartPre=/usr/sbin/sshd -t\n' \
    > "$root/etc/systemd/system/ssh.service.d/keys.conf"
printf '[Match]\nType=ether\n\n[Network]\nDHCP=yes\n' > "$root/etc/systemd/network/dhcp.network"
chroot "$root" env SYSTEMD_OFFLINE=1 systemctl -q enable systemd-networkd.service ssh.service

mke2fs -q -t ext4 -d "$root" "$scratch/disk" 6G
qemu-img convert -c -O qcow2 "$scratch/disk" "$scratch/box.img"
printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": 6}\n' > "$scratch/metadata.json"
tar -C "$scratch" -czf "$folder/node.box.new" metadata.json box.img
mv "$folder/node.box.new" "$folder/node.box"
