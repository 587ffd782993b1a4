# shellcheck shell=sh
# Makes an image: everything runs inside it (a chroot, a container, a disposable machine), starts nothing, and writes no
# kernel setting. Paths are resolved inside, too: no link leads out of the image.

export DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 LC_ALL=C
PYTHONS="python3 python3.14 python3.13 python3.12 python3.11"

tell_image() { # PATHS UNITS PACKAGES, each separated by spaces; "sysprep" or ""
    if [ -e /var/lib/kubelet/pki ] || [ -e /etc/kubernetes/kubelet.conf ]; then echo "node a kubelet has joined a cluster"; fi
    for each in $PYTHONS; do
        "$each" -c 'import platform, shutil, sys
print("python", "%d.%d" % sys.version_info[:2], platform.machine(), shutil.which(sys.argv[1]))' "$each"
    done 2> /dev/null
    for path in $1; do
        if [ -f "$path" ]; then printf 'file %s %s\n' "$(sha256sum < "$path" | cut -c 1-64)" "$path"; fi
    done
    for unit in $2; do printf 'unit %s %s\n' "$(systemctl is-enabled "$unit" 2> /dev/null || :)" "$unit"; done
    for package in $3; do tell_package "$package"; done
    tell_kubelet
    if [ "$4" = sysprep ]; then tell_left; fi
    tell_unwritable | sed 's/^/unwritable /'
    tell_cmdline | sed 's/^/cmdline /'
    tell_all
}
tell_package() {
    version=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2> /dev/null) || return 0
    case $version in installed*) ;; *) return 0 ;; esac
    held=free
    if [ "$(apt-mark showhold "$1" 2> /dev/null)" = "$1" ]; then held=held; fi
    printf 'package %s %s %s\n' "$held" "${version#* }" "$1"
}
tell_kubelet() { # VERSION SHA256 PATH SOURCE of the kubelet that its unit starts, whatever brought it
    program=$(cat /usr/lib/systemd/system/kubelet.service /usr/lib/systemd/system/kubelet.service.d/*.conf \
        /etc/systemd/system/kubelet.service /etc/systemd/system/kubelet.service.d/*.conf 2> /dev/null |
        sed -n 's/^ExecStart=[-@:+!]*\([^[:space:]]*\/kubelet\)\([[:space:]].*\)\{0,1\}$/\1/p' | tail -n 1)
    for path in "$program" /usr/bin/kubelet /usr/local/bin/kubelet /opt/bin/kubelet; do
        [ -f "$path" ] || continue
        version=$("$path" --version 2> /dev/null)
        owner=$(dpkg-query -S "$path" 2> /dev/null) || owner=
        if [ -n "$owner" ]; then
            owner=$(dpkg-query -W -f 'package ${Package} ${Version}' "${owner%%:*}" 2> /dev/null)
        fi
        sum=$(sha256sum < "$path")
        case $version in "Kubernetes v"[0-9]*) version=${version#Kubernetes v} ;; *) version=unknown ;; esac
        printf 'kubelet %s %s %s %s\n' "$version" "${sum%% *}" "$path" "${owner:-no package}"
        return
    done
}
tell_all() { # every package, for the manifest
    dpkg-query -W -f 'installed ${Package} ${Version} ${Architecture}\n' 2> /dev/null
    # shellcheck source=/dev/null
    . /etc/os-release && printf 'release %s %s\n' "${ID-}" "${VERSION_ID-}"
}
put() { # PATH MODE: the content on stdin, in base64
    mkdir -p "${1%/*}" && base64 -d > "$1.numaforge-new" && chmod "$2" "$1.numaforge-new" &&
        mv -f "$1.numaforge-new" "$1"
}
# Compiles with hashes instead of times: a builder that resets all times would cause a recompilation at each start.
unpack() { # FOLDER PYTHON: replace the folder by the archive on stdin
    rm -rf "$1.new" && mkdir -p "$1.new" && base64 -d | tar -xz --no-same-owner -C "$1.new" || return 1
    "$2" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$1.new" -p "$1" "$1.new/lib" > /dev/null 2>&1 || : # a file for another Python
    rm -rf "$1.old"
    if [ -e "$1" ]; then mv "$1" "$1.old" || return 1; fi
    mv "$1.new" "$1" && rm -rf "$1.old"
}
install_packages() { # NAME=VERSION...: without starting any service
    policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ]; then mv "$policy" "$policy.numaforge" || return 1; fi
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy"
    said=$({ apt-get -q update && apt-get -q -y --no-install-recommends --allow-change-held-packages install "$@"; } 2>&1)
    status=$?
    rm -f "$policy"
    if [ -e "$policy.numaforge" ]; then mv "$policy.numaforge" "$policy"; fi
    [ "$status" = 0 ] || printf '%s\n' "$said" | tail -n 5 >&2
    return "$status"
}
hold() { apt-mark hold "$@" > /dev/null; } # NAME...
enable() { systemctl enable "$@" 2>&1 | sed '/^Created symlink/d' >&2; [ -z "$(disabled "$@")" ]; } # UNIT...
disabled() {
    for unit; do
        case $(systemctl is-enabled "$unit" 2> /dev/null) in enabled | static | alias | indirect | generated) ;; *) echo "$unit" ;; esac
    done
}

# sysprep removes what belongs to the machine that made the image: see left_by_making in hygiene.sh.
tell_left() {
    left_by_making tell_path
    if [ ! -e /etc/machine-id ] || has_machine_id; then tell_path machine-id /etc/machine-id; fi
    if [ -n "$(filled_logs)" ]; then tell_path logs /var/log; fi
    for path in /var/cache/apt/archives/*.deb; do
        if [ -e "$path" ]; then tell_path builder /var/cache/apt/archives && break; fi
    done
}
tell_path() { printf 'left %s\n' "$2"; }    # RULE PATH
remove_path() { rm -rf "$2" || failed=$2; } # RULE PATH
filled_logs() { find /var/log -type f -size +0 2> /dev/null; }
sysprep() {
    failed=
    left_by_making remove_path
    if [ ! -e /etc/machine-id ] || has_machine_id; then
        chmod u+w /etc/machine-id 2> /dev/null
        : > /etc/machine-id && chmod 444 /etc/machine-id || failed=/etc/machine-id
    fi
    find /var/log -type f -size +0 -exec truncate -s 0 {} + || failed=/var/log
    rm -f /var/cache/apt/archives/*.deb || failed=/var/cache/apt/archives
    [ -z "$failed" ] || { echo "$failed cannot be removed" >&2 && return 1; }
}
