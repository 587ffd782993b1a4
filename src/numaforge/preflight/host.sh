# shellcheck shell=sh
# Prints what a maintenance needs from this host besides its capture, as lines of KIND and words.
# Changes nothing, and leaves out what it cannot find.

tell_preflight() { # PROGRAMS PROGRAMS-OF-SYSTEMD FOLDER...
    # shellcheck disable=SC2086 # words
    tell_missing $1
    if [ -d /run/systemd/system ]; then
        echo "systemd runs"
        # shellcheck disable=SC2086
        tell_missing $2
    else
        echo "systemd -"
    fi
    for login in /etc/kubernetes/kubelet.conf /var/lib/kubelet/pki/kubelet-client-current.pem \
        /var/lib/rancher/k3s/agent/kubelet.kubeconfig /var/lib/rancher/rke2/agent/kubelet.kubeconfig \
        /var/snap/microk8s/current/credentials/kubelet.config; do
        if [ -e "$login" ]; then
            echo "joined yes"
            break
        fi
    done
    shift 2
    tell_space "$@"
    echo "clock $(date +%s)"
}
tell_space() { # FOLDER...
    asked=
    for folder; do
        until [ -d "$folder" ]; do
            folder=${folder%/*}
            folder=${folder:-/}
        done
        asked="$asked $folder"
    done
    # shellcheck disable=SC2086 # folders without blanks; df says a line of each, in this order
    answer=$(df -P -k $asked 2> /dev/null) || return 0
    newline='
'
    answer=${answer#*"$newline"} # the header
    read_only=$(grep ' ro[, ]' /proc/self/mounts 2> /dev/null)
    for folder; do
        entry=${answer%%"$newline"*}
        answer=${answer#*"$newline"}
        # shellcheck disable=SC2086 # words
        set -- $entry
        case ${4-} in *[!0-9]* | '') continue ;; esac
        echo "space $folder $4"
        shift 5
        case $read_only in *" $* "*) ! is_read_only "$*" || echo "read-only $folder" ;; esac
    done
}
is_read_only() { # MOUNT-POINT: the last mount on it counts
    how=
    while read -r _ mounted _ options _; do
        [ "$mounted" != "$1" ] || how=$options
    done < /proc/self/mounts
    case ,$how, in *,ro,*) return 0 ;; *) return 1 ;; esac
}
