# shellcheck shell=sh
# What a maintenance needs of this host besides its capture, as lines of KIND and words; the last one is `asked`.
# Changes nothing, and leaves out what it cannot tell.

tell_preflight() { # FOLDER...; names of programs on stdin
    echo numaforge-preflight
    while read -r program; do
        command -v "$program" > /dev/null 2>&1 || echo "missing $program"
    done
    if [ -d /run/systemd/system ]; then
        echo "systemd runs"
        for program in systemctl systemd-run; do
            command -v "$program" > /dev/null 2>&1 || echo "missing $program"
        done
    else
        echo "systemd -"
    fi
    if [ -e /etc/kubernetes/kubelet.conf ] || [ -e /var/lib/kubelet/pki/kubelet-client-current.pem ]; then
        echo "joined yes"
    fi
    for folder; do
        there=$folder
        until [ -d "$there" ]; do
            there=${there%/*}
            there=${there:-/}
        done
        df -P -k "$there" 2> /dev/null | while read -r _ _ _ free _ point; do
            case $free in *[!0-9]* | '') continue ;; esac # the heading
            echo "space $folder $free"
            ! read_only "$point" || echo "read-only $folder"
        done
    done
    echo "clock $(date +%s)"
    echo asked
}
read_only() { # MOUNT-POINT: the last mount on it counts
    [ -r /proc/self/mounts ] || return 1
    how=
    while read -r _ mounted _ options _; do
        [ "$mounted" != "$1" ] || how=$options
    done < /proc/self/mounts
    case ,$how, in *,ro,*) return 0 ;; *) return 1 ;; esac
}
