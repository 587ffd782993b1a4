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
    package_manager
    tell_package_doubt | sed 's/^/packages /'
    for package in $3; do tell_package "$package"; done
    tell_kubelet
    if [ "$4" = sysprep ]; then tell_left; fi
    tell_unwritable | sed 's/^/unwritable /'
    tell_cmdline | sed 's/^/cmdline /'
    tell_all
}
tell_package() {
    found=$(installed_packages "$1" | tail -n 1)
    [ -n "$found" ] || return 0
    held=free
    if is_held "$1"; then held=held; fi
    found=${found#* }
    printf 'package %s %s %s\n' "$held" "${found% *}" "$1"
}
tell_kubelet() { # VERSION SHA256 PATH SOURCE of the kubelet that its unit starts, whatever brought it
    program=$(cat /usr/lib/systemd/system/kubelet.service /usr/lib/systemd/system/kubelet.service.d/*.conf \
        /etc/systemd/system/kubelet.service /etc/systemd/system/kubelet.service.d/*.conf 2> /dev/null |
        sed -n 's/^ExecStart=[-@:+!]*\([^[:space:]]*\/kubelet\)\([[:space:]].*\)\{0,1\}$/\1/p' | tail -n 1)
    for path in "$program" /usr/bin/kubelet /usr/local/bin/kubelet /opt/bin/kubelet; do
        [ -f "$path" ] || continue
        version=$("$path" --version 2> /dev/null)
        owner=$(package_with "$path")
        sum=$(sha256sum < "$path")
        case $version in "Kubernetes v"[0-9]*) version=${version#Kubernetes v} ;; *) version=unknown ;; esac
        printf 'kubelet %s %s %s %s\n' "$version" "${sum%% *}" "$path" "${owner:-no package}"
        return
    done
}
tell_all() { # every package, for the manifest
    echo "manager $manager"
    installed_packages | sed 's/^/installed /'
    # shellcheck source=/dev/null
    . /etc/os-release && printf 'release %s %s\n' "${ID-}" "${VERSION_ID-}"
}
put() { # PATH MODE: the content on stdin, in base64
    mkdir -p "${1%/*}" && base64 -d > "$1.numaforge-new" && chmod "$2" "$1.numaforge-new" &&
        mv -f "$1.numaforge-new" "$1"
}
# Compiles with hashes instead of times: a builder that resets all times would cause a recompilation at each start.
unpack() { # FOLDER PYTHON: replace the folder by the archive on stdin
    home=$(home_of "$1")
    rm -rf "$home.new" && mkdir -p "$home.new" && base64 -d | tar -xz --no-same-owner -C "$home.new" || return 1
    workers=1 # several need semaphores
    if [ -d /dev/shm ]; then workers=0; fi
    "$2" -m compileall -q -j "$workers" --invalidation-mode unchecked-hash -s "$home.new" -p "$home" "$home.new/lib" > /dev/null 2>&1 || : # a file for another Python
    rm -rf "$home.old"
    if [ -e "$home" ] || [ -L "$home" ]; then mv "$home" "$home.old" || return 1; fi
    mv "$home.new" "$home" && rm -rf "$home.old" || return 1
    [ "$home" = "$1" ] || link_home "$1" "$home"
}
# Where /opt leads to /var (bootc, ostree), an update of the image would leave the old program: it lies in /usr there.
home_of() { # FOLDER
    case $(readlink -f "${1%/*}")/ in
    /var/*) echo "/usr/lib/${1##*/}" ;;
    *) echo "$1" ;;
    esac
}
link_home() { # FOLDER HOME: now, and on a node whose /var is older than its image
    mkdir -p "$(readlink -f "${1%/*}")" /usr/lib/tmpfiles.d && rm -rf "$1" && ln -s "$2" "$1" &&
        printf '# Written by numaforge.\nL+ %s - - - - %s\n' "$(readlink -f "${1%/*}")/${1##*/}" "$2" \
            > /usr/lib/tmpfiles.d/numaforge-image.conf
}
# Gives files the types of the image's own SELinux policy; without setfiles the first boot does it.
label() { # FOLDER PATH...
    home=$(home_of "$1")
    shift
    type=
    [ ! -e /etc/selinux/config ] || type=$(sed -n 's/^SELINUXTYPE=//p' /etc/selinux/config | tail -n 1)
    contexts=/etc/selinux/${type:-none}/contexts/files/file_contexts
    [ -e "$contexts" ] && ! grep -qx 'SELINUX=disabled' /etc/selinux/config || return 0
    # -m: a builder without SELinux has no mount that setfiles would label by itself
    setfiles -m -F "$contexts" "$home" "$@" > /dev/null 2>&1 || : > /.autorelabel
}
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
