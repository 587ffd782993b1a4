#!/bin/sh
# Boot a baked root file system in QEMU, without KVM, and ask what the node did to itself: boot.sh ARCHIVE.tar [PROFILE]
# The root needs a kernel (linux-image-amd64, with PACKAGES of bake.sh) and a kubelet. Runs as root.
# Ends with 0 where the node has planned itself, and would change nothing in a second look.
set -eu
archive=$1 profile=${2:-cpu-only}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/root"
tar -C "$scratch/root" --exclude='./dev/*' -xf "$archive"
mke2fs -q -t ext4 -d "$scratch/root" "$scratch/disk" 6G

asked='systemctl start numaforge-boot.service && cat /var/lib/numaforge/boot/record.json && /opt/numaforge/numaforge boot --dry && echo numaforge: as planned'
qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 4 -m 4G -nographic -no-reboot -nic none \
    -object memory-backend-ram,id=m0,size=2G -numa node,nodeid=0,memdev=m0,cpus=0-1 \
    -object memory-backend-ram,id=m1,size=2G -numa node,nodeid=1,memdev=m1,cpus=2-3 \
    -drive "file=$scratch/disk,if=virtio,format=raw" \
    -kernel "$(readlink -f "$scratch"/root/boot/vmlinuz-*)" -initrd "$(readlink -f "$scratch"/root/boot/initrd.img-*)" \
    -append "root=/dev/vda rw console=ttyS0 numaforge.profile=$profile systemd.run_success_action=poweroff \
systemd.run_failure_action=poweroff systemd.run=\"/bin/sh -c '{ $asked; } > /dev/console 2>&1'\"" < /dev/null |
    tee "$scratch/console"
grep -q '^numaforge: as planned' "$scratch/console"
