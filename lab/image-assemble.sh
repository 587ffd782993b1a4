#!/bin/sh
# Make root.img in the folder $3 from the archives $1 (Debian) and $2 (what is laid over it): $4 bytes, with the file system
# from byte $5 on. What belongs before it, GRUB's boot.img and core.img, is put beside it. Runs as root, or as root of a
# user namespace. What follows, with {root} for its path, is called once the root is made.
set -eu
base=$1 overlay=$2 folder=$3 bytes=$4 partition=$5
shift 5
root=$folder/root
trap 'rm -rf "$root"' EXIT

mkdir "$root"
tar -C "$root" --numeric-owner -xf "$base" --exclude='./dev/*'
tar -C "$root" --keep-directory-symlink -xf "$overlay"

# What "kubeadm join" writes on a node, written by kubeadm itself. It names the host in the flags only when the node's
# name differs from the hostname, which is not so here. By itself a kubelet would say every ten seconds that it lives and
# what device plugins offer, and each proof that it works would wait for that. A status that is as before is reported
# as seldom as by itself. Chains for kube-proxy, which does not run here, would be made by thirty programs.
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
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 5m
nodeLeaseDurationSeconds: 8
makeIPTablesUtilChains: false
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
    lab-identity lab-tray lab-devices lab-images lab-deviceplugin lab-resume
chroot "$root" systemctl --quiet mask getty@tty1.service apt-daily.timer apt-daily-upgrade.timer fstrim.timer \
    e2scrub_all.timer e2scrub_reap.service dpkg-db-backup.timer systemd-firstboot.service \
    serial-getty@ttyS0.service cni-dhcp.socket rdma-load-modules@.service rdma-ndd.service
# What looks for encrypted disks, partitions, consoles and old scripts whenever units are reloaded finds none here, and
# costs an emulated CPU seconds.
mkdir -p "$root/etc/systemd/system-generators"
for name in cryptsetup debug getty gpt-auto hibernate-resume integritysetup rc-local run system-update sysv \
    veritysetup; do
    ln -s /dev/null "$root/etc/systemd/system-generators/systemd-$name-generator"
done
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/resolv.conf" "$root/etc/machine-id"
printf 'nameserver 10.0.2.3\n' >"$root/etc/resolv.conf"
printf '/dev/vda1 / ext4 defaults 0 1\n' >"$root/etc/fstab"
printf 'LANG=C.UTF-8\n' >"$root/etc/default/locale"

# GRUB as grub-install leaves it. grub-probe asks the kernel what is mounted, and the node's disk is not: while grub.cfg is
# written for the first time, a script stands in for it and answers what it will answer on the node.
modules=/usr/lib/grub/i386-pc
mkdir -p "$root/boot/grub/i386-pc"
cp "$root$modules"/*.mod "$root$modules"/*.lst "$root/boot/grub/i386-pc"
chroot "$root" grub-editenv /boot/grub/grubenv create
# What looks for other systems, and for a picture, costs an emulated CPU seconds and finds nothing.
chmod -x "$root"/etc/grub.d/05_debian_theme "$root"/etc/grub.d/20_linux_xen "$root"/etc/grub.d/30_*
mv "$root/usr/sbin/grub-probe" "$root/usr/sbin/grub-probe.real"
cat >"$root/usr/sbin/grub-probe" <<'EOF'
#!/bin/sh
case " $* " in
*" --target=device "*) echo /dev/vda1 ;;
*" --target=partmap "*) echo msdos ;;
*" --target=fs "*) echo ext2 ;;
esac
EOF
chmod 755 "$root/usr/sbin/grub-probe"
: >"$root/dev/null"
chroot "$root" update-grub
rm "$root/dev/null"
mv "$root/usr/sbin/grub-probe.real" "$root/usr/sbin/grub-probe"
chroot "$root" grub-mkimage -O i386-pc -o /core.img -p '(hd0,msdos1)/boot/grub' biosdisk part_msdos ext2
mv "$root/core.img" "$folder/core.img"
cp "$root$modules/boot.img" "$folder/boot.img"

if [ $# -gt 0 ]; then
    for word; do
        shift
        case $word in *"{root}"*) word=${word%%"{root}"*}$root${word#*"{root}"} ;; esac
        set -- "$@" "$word"
    done
    mknod -m 666 "$root/dev/null" c 1 3
    "$@" >&2
    rm "$root/dev/null"
fi

# With the node's own mke2fs.conf, so that a newer mke2fs uses no feature that the node's GRUB cannot read.
truncate -s "$bytes" "$folder/root.img"
MKE2FS_CONFIG="$root/etc/mke2fs.conf" mke2fs -q -t ext4 \
    -E "offset=$partition,lazy_itable_init=1,lazy_journal_init=1" -d "$root" \
    "$folder/root.img" "$(((bytes - partition) / 1024))k"
