# shellcheck shell=sh
# The modules that the node depends on: without one of them, a boot or our connection would fail. A line for each: MODULE
# WHAT WHY. A file system that is not mounted yet, such as /boot/efi by its automount, counts as mounted.

stands_on() {
    {
        echo "overlay - containers"
        ways_in | while read -r interface why; do of "$interface" "$why" "$(interface_modules "$interface")"; done
        file_systems | while read -r type source place options; do
            of "$place" file-system "$(file_system_modules "$type")"
            case $type in
            zfs | btrfs | bcachefs) of "$place" block-device "$(every_block_module)" ;; # may span several devices
            nfs* | cifs | smb3 | ceph | lustre | gpfs | beegfs | 9p) over_network "$place" "$options" ;;
            *) of "$place" block-device "$(source_modules "$source")" ;;
            esac
        done
        disks_elsewhere
    } 2> /dev/null | sort -u | with_what_they_need
}
of() { # WHAT WHY MODULES
    # shellcheck disable=SC2086 # words
    for module in $3; do echo "$module $1 $2"; done
}
with_what_they_need() { # stdin is sorted by module
    last=
    while read -r module what why; do
        if [ "$module" != "$last" ]; then needed="$module $(dependencies "$module") $(used_by "$module")"; fi
        last=$module
        of "$what" "$why" "$needed"
    done | sort -u
}

# ---- file systems and swap ----

file_systems() { # TYPE SOURCE PLACE OPTIONS of what is mounted, and of what a boot mounts; the source may be MAJOR:MINOR
    seen=' '
    while read -r _ _ device _ place rest; do
        rest=${rest#*- }
        type=${rest%% *}
        case $type in
        overlay | proc | sysfs | *tmpfs | devpts | mqueue | cgroup* | hugetlbfs | securityfs | debugfs | tracefs) continue ;;
        pstore | bpf | nsfs | ramfs | configfs | rpc_pipefs) continue ;;
        esac
        case $seen in *" $type/$device "*) continue ;; esac
        seen="$seen$type/$device "
        rest=${rest#* }
        case $device in 0:*) device=${rest%% *} ;; esac
        echo "$type $device $place ${rest#* }"
    done < /proc/1/mountinfo
    while read -r source place type options _; do
        case $source in '' | '#'*) continue ;; esac
        if [ "$type" = swap ]; then place=$source; fi
        echo "$type $source $place ${options:--}"
    done < /etc/fstab
    while read -r source _; do
        case $source in /*) echo "swap $source $source -" ;; esac
    done < /proc/swaps
    for unit in /etc/systemd/system/*.mount /run/systemd/system/*.mount /run/systemd/generator*/*.mount; do
        if [ -e "$unit" ]; then unit_of_mount < "$unit"; fi
    done
}
unit_of_mount() {
    type=auto source=- place=- options=-
    while IFS='=' read -r key value; do
        case $key in
        Type) type=$value ;;
        What) source=$value ;;
        Where) place=$value ;;
        Options) options=$value ;;
        esac
    done
    echo "$type $source $place $options"
}
file_system_modules() { # TYPE, or several with commas: its modules, and those that it requests when mounted
    for each in $(echo "$1" | tr ',' ' '); do
        case $each in
        auto | none | swap | bind) ;;
        vfat | msdos | exfat | ntfs*) echo "$each fat nls_cp437 nls_iso8859_1 nls_ascii nls_utf8" ;;
        ext2 | ext3 | ext4) echo "$each ext4 jbd2 mbcache crc32c_generic" ;;
        xfs | btrfs) echo "$each libcrc32c crc32c_generic" ;;
        nfs*) echo "nfs nfsv3 nfsv4 sunrpc lockd" ;;
        iso9660) echo isofs ;;
        fuse*) echo fuse ;;
        smb3) echo cifs ;;
        autofs) echo "autofs autofs4" ;;
        *) echo "$each" | tr - _ ;;
        esac
    done
}

# ---- block devices ----

source_modules() { # SOURCE as in mountinfo, fstab or a unit
    case $1 in
    [0-9]*:[0-9]*) block_modules "/sys/dev/block/$1" ;;
    UUID=* | LABEL=* | PARTUUID=* | PARTLABEL=*)
        value=${1#*=}
        value=${value#\"}
        device=$(readlink -f "/dev/disk/by-$(echo "${1%%=*}" | tr '[:upper:]' '[:lower:]')/${value%\"}")
        block_modules "/sys/class/block/${device##*/}"
        ;;
    /dev/*)
        device=$(readlink -f "$1")
        block_modules "/sys/class/block/${device##*/}"
        ;;
    esac
}
every_block_module() {
    for device in /sys/block/*; do block_modules "$device"; done | sort -u
}
block_modules() ( # DEVICE: through partitions, device mapper, md and the controllers of a multipath
    at=$(cd -P "$1" && pwd) || exit 0
    if [ -e "$at/partition" ]; then at=${at%/*}; fi
    for slave in "$at"/slaves/*; do
        if [ -e "$slave" ]; then block_modules "$slave"; fi
    done
    name=${at##*/}
    if [ -d "$at/dm" ]; then # each target has its own module, and only dmsetup knows which are used
        echo dm_mod
        for each in /sys/module/dm_*; do if [ -e "$each" ]; then echo "${each##*/}"; fi; done
    elif [ -d "$at/md" ]; then
        read -r level < "$at/md/level"
        case $level in raid[456]) level=raid456 ;; esac
        echo "md_mod $level"
    else
        case $at in
        */nvme-subsystem/*)
            for each in "${at%/*}"/nvme*; do
                if [ -e "$each/transport" ]; then drivers_above "$each"; fi
            done
            ;;
        /sys/devices/virtual/*) echo "${name%%[0-9]*}" ;; # loop, nbd, rbd, drbd, zram
        *) drivers_above "$at" ;;
        esac
        case $name in nvme*) echo "nvme_core" ;; esac
    fi
)

# ---- over a network ----

over_network() { # PLACE OPTIONS
    case ",$2," in
    *rdma*) of "$1" storage-network "$(rdma_modules)" ;;
    esac
    case ",$2," in
    *,addr=*)
        address=,$2
        address=${address#*,addr=}
        towards "$1" "${address%%,*}"
        ;;
    *) towards "$1" - ;;
    esac
}
towards() { # WHAT ADDRESS: the interface to the address; all interfaces where it is unknown
    # shellcheck disable=SC2046 # words
    route=$(after_dev - $(ip -o route get "$2" 2> /dev/null))
    if [ -n "$route" ]; then
        of "$1" storage-network "$(interface_modules "${route%% *}")"
        return
    fi
    for each in /sys/class/net/*; do
        if [ -e "$each/device" ]; then of "$1" storage-network "$(interface_modules "${each##*/}")"; fi
    done
}
disks_elsewhere() { # NVMe over Fabrics and iSCSI
    for controller in /sys/class/nvme/*; do
        read -r transport < "$controller/transport" || continue
        case $transport in rdma | tcp | fc) ;; *) continue ;; esac
        of "${controller##*/}" block-device "nvme_$transport nvme_fabrics nvme_core"
        if [ "$transport" = rdma ]; then of "${controller##*/}" storage-network "$(rdma_modules)"; fi
        read -r address < "$controller/address" || continue
        address=${address#*traddr=}
        towards "${controller##*/}" "${address%%,*}"
    done
    for connection in /sys/class/iscsi_connection/*; do
        read -r address < "$connection/address" || continue
        of "${connection##*/}" block-device "iscsi_tcp libiscsi_tcp libiscsi scsi_transport_iscsi sd_mod $(users_of libiscsi)"
        towards "${connection##*/}" "$address"
    done
}
rdma_modules() {
    for each in /sys/class/infiniband/*; do drivers_above "$each/device"; done
    echo "ib_core rdma_cm rpcrdma $(users_of ib_core)"
}
