# shellcheck shell=sh
# Prints which packages are held. Reads the files of versionlock and zypper: dnf takes a second to list them.
# dpkg-query takes 30 ms, apt-mark half a second.

held_packages() { # MANAGER: "held NAME" of each
    # shellcheck disable=SC2016 # dpkg-query expands them
    case $1 in
    apt) dpkg-query -W -f '${db:Status-Want} ${Package}\n' | sed -n 's/^hold /held /p' ;;
    dnf)
        sed -n -e '/^[#!]/d' -e 's/-[0-9]*:[^-]*-[^-]*$//' -e 's/./held &/p' /etc/dnf/plugins/versionlock.list
        sed -n 's/^ *name *= *"\([^"]*\)".*/held \1/p' /etc/dnf/versionlock.toml
        ;;
    zypper) sed -n 's/^solvable_name: */held /p' /etc/zypp/locks ;;
    esac 2> /dev/null
}
look_packages() { # RECORD MANAGER all|ours
    tell_record ours "$1"
    if [ "$3" = all ] || [ -e "$1" ]; then held_packages "$2"; fi
}
