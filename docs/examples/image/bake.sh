#!/bin/sh
# Bake a root file system whose nodes plan themselves, and test it: bake.sh ARCHIVE.tar [REPORT.xml]
# Runs as root, or as anybody with mmdebstrap, uidmap and a range in /etc/subuid. Variables with their defaults:
#   SUITE=bookworm               of Debian; MIRROR names where its packages come from
#   PACKAGES="systemd-sysv,udev,python3" what the root has before it is baked; a kernel, sshd, cloud-init go here
#   FILES=                       a folder that is laid over the root before it is baked: a kubelet, its unit
#   WISH=image.yaml              what is baked
#   DEPLOY=deploys/bake.py       as `numaforge init` writes it
set -eu
archive=$1 report=${2:-}
suite=${SUITE:-bookworm} packages=${PACKAGES:-systemd-sysv,udev,python3}
export FILES="${FILES:-}" WISH="${WISH:-image.yaml}" DEPLOY="${DEPLOY:-deploys/bake.py}"
scratch=$(mktemp -d)
trap '$as_root rm -rf "$scratch/root"; rm -rf "$scratch"' EXIT
as_root=
[ "$(id -u)" = 0 ] || as_root="mmdebstrap --unshare-helper"
chmod 755 "$scratch"

# shellcheck disable=SC2016  # the hooks are shell, which mmdebstrap runs with the root as $1
mmdebstrap --variant=minbase --dpkgopt=force-unsafe-io --include="$packages" \
    --customize-hook='[ -z "$FILES" ] || tar -C "$FILES" --owner=0 --group=0 -c . | tar -C "$1" --keep-directory-symlink -x' \
    --customize-hook='pyinfra -y @chroot/"$1" "$DEPLOY" --data numaforge_image="$WISH" >&2' \
    "$suite" "$archive" ${MIRROR:+"$MIRROR"}

# As it is after mmdebstrap has taken away what it needed itself.
# shellcheck disable=SC2086  # two words, or none
# shellcheck disable=SC2016 # the shell within expands it
$as_root sh -euc '
    mkdir "$1/root"
    tar -C "$1/root" --exclude="./dev/*" -xf "$2"
    numaforge verify --image "$1/root" ${3:+-- "--junitxml=$3"}
' sh "$scratch" "$archive" "$report"
