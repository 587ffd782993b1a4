# shellcheck shell=sh
# The packages of an image, by the manager whose database it has.

package_manager() { # sets `manager`: apt for dpkg's database, dnf for RPM's, nothing without either
    manager=
    for database in /var/lib/rpm/Packages /var/lib/rpm/Packages.db /var/lib/rpm/rpmdb.sqlite \
        /usr/lib/sysimage/rpm/Packages.db /usr/lib/sysimage/rpm/rpmdb.sqlite; do
        if [ -s "$database" ]; then manager=dnf; fi
    done
    if [ -s /var/lib/dpkg/status ]; then manager=apt; fi # where rpm is but a program
}
# Prints why the packages cannot be read, installed or held; nothing where they can.
tell_package_doubt() {
    case $manager in
    apt) set -- dpkg-query apt-get apt-mark ;;
    dnf) set -- rpm dnf ;;
    *)
        echo "it has neither dpkg's database nor RPM's, so what is installed is unknown"
        return
        ;;
    esac
    for program; do
        command -v "$program" > /dev/null || echo "it has packages of $manager, and no $program"
    done
}
# shellcheck disable=SC2016 # what dpkg-query and rpm put in for each package
installed_packages() { # print "NAME VERSION ARCHITECTURE" of each, or of those that are named
    case $manager in
    apt) dpkg-query -W -f '${db:Status-Status} ${Package} ${Version} ${Architecture}\n' "$@" | sed -n 's/^installed //p' ;;
    dnf)
        [ "$#" != 0 ] || set -- -a
        rpm -q --qf '%{NAME} %|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE} %{ARCH}\n' "$@" |
            sed -e '/ is not installed$/d' -e '/^gpg-pubkey /d'
        ;;
    esac 2> /dev/null
}
package_with() { # FILE: print "package NAME VERSION", nothing where none has it
    case $manager in
    apt) owner=$(dpkg-query -S "$1") && set -- "${owner%%:*}" ;;
    dnf) owner=$(rpm -q --qf '%{NAME}\n' -f "$1") && set -- "$owner" ;;
    *) return ;;
    esac 2> /dev/null || return
    found=$(installed_packages "$1" | tail -n 1)
    [ -z "$found" ] || printf 'package %s\n' "${found% *}"
}
install_packages() { # NAME=VERSION or NAME...: without starting any service
    package_manager
    case $manager in
    apt) installer=install_debs ;;
    dnf) installer=install_rpms ;;
    esac
    said=$("$installer" "$@" 2>&1)
    status=$?
    [ "$status" = 0 ] || printf '%s\n' "$said" | tail -n 5 >&2
    return "$status"
}
install_debs() {
    policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ]; then mv "$policy" "$policy.numaforge" || return 1; fi
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy"
    apt-get -q update && apt-get -q -y --no-install-recommends --allow-change-held-packages install "$@"
    status=$?
    rm -f "$policy"
    if [ -e "$policy.numaforge" ]; then mv "$policy.numaforge" "$policy"; fi
    return "$status"
}
install_rpms() { # an older version, too; a locked one is let go first
    for package; do
        name=${package%%=*}
        if is_held "$name"; then dnf -q -y versionlock delete "$name" || return 1; fi
        case $package in
        *=*) set -- "$@" "$name-${package#*=}" ;;
        *) set -- "$@" "$name" ;;
        esac
        shift
    done
    dnf -q -y --setopt=install_weak_deps=False --allowerasing install "$@"
}
hold_packages() { # NAME...
    package_manager
    case $manager in
    apt) apt-mark hold "$@" ;;
    dnf) dnf -q -y versionlock add "$@" ;;
    esac > /dev/null
}
is_held() { held_packages "$manager" | grep -qxF "held $1"; } # NAME
