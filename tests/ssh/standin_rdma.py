"""What a sandbox without RDMA lacks: a NIC below /sys, modules that can be loaded, and units with a limit.

`modprobe` and `rmmod` know the modules of /run/modules, a line "NAME DEPENDENCY..." each; one that is loaded
has its folder below /sys/module, and one that is named in /run/busy does not go. `rdma` changes the mode of
ib_core, and not while there is a file /run/rdma-busy. `dcb` and `mlnx_qos` keep what they are told
in /run/dcb and in /run/trust, by interface.
`ethtool` keeps the number of channels in /run/channels, of 63 that there can be; an interface named in
/run/without-channels has none to combine.

`systemctl` says of a unit which limit its drop-ins had at the last daemon-reload, and starts it with that.
"""

from tests.ssh.sandbox import Sandbox

ADDRESS = "0000:17:00.0"
PORT = "/sys/devices/pci0000:15/0000:15:01.0"
FUNCTION = f"{PORT}/{ADDRESS}"
CONFIG = f"{FUNCTION}/config"
DEVICE_CONTROL = 0x40 + 8
INTERFACE = "eth2"
MODULES = """mlx5_core
ib_core
ib_uverbs ib_core
mlx5_ib ib_uverbs mlx5_core
ib_umad ib_core
rdma_cm ib_core
rdma_ucm rdma_cm ib_uverbs
nouveau
"""

_MODPROBE = """#!/bin/sh
closure() {
    grep -q "^$1\\\\( \\\\|$\\\\)" /run/modules || return 1
    for needed in $(sed -n "s/^$1 //p" /run/modules); do closure "$needed"; done
    echo "$1"
}
case $1 in
--dry-run) closure "$3" > /dev/null ;;
--show-depends)
    list=$(closure "$2") || exit 1
    for module in $list; do echo "insmod /lib/modules/6.1.0/kernel/$(echo "$module" | tr _ -).ko.xz"; done
    ;;
*)
    echo "$*" >> /run/modprobe.log
    list=$(closure "$1") || { echo "modprobe: FATAL: Module $1 not found" >&2; exit 1; }
    for module in $list; do
        mkdir -p "/sys/module/$module/parameters"
        if [ "$module" = ib_core ] && [ ! -e /sys/module/ib_core/parameters/netns_mode ]; then
            case $(cat /etc/modprobe.d/*.conf 2> /dev/null) in *netns_mode=0*) mode=N ;; *) mode=Y ;; esac
            echo "$mode" > /sys/module/ib_core/parameters/netns_mode
        fi
    done
    ;;
esac
"""
_RMMOD = """#!/bin/sh
echo "$1" >> /run/rmmod.log
if grep -qx "$1" /run/busy 2> /dev/null; then echo "rmmod: ERROR: Module $1 is in use" >&2; exit 1; fi
rm -r "/sys/module/$1"
"""
_RDMA = """#!/bin/sh
[ ! -e /run/rdma-busy ] || { echo "error: Device or resource busy" >&2; exit 1; }
[ "$1 $2 $3" = "system set netns" ] || exit 1
case $4 in shared) echo Y ;; exclusive) echo N ;; esac > /sys/module/ib_core/parameters/netns_mode
"""
_DCB = """#!/bin/sh
shift
case $1 in
show)
    none="0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off"
    echo "prio-pfc $(cat "/run/dcb/$3" 2> /dev/null || echo "$none") "
    ;;
set)
    file=/run/dcb/$3
    shift 4
    [ ! -e /run/refuse-pfc ] && mkdir -p /run/dcb && echo "$*" > "$file"
    ;;
esac
"""
_MLNX_QOS = """#!/bin/sh
mkdir -p /run/trust
case $3 in
--trust) echo "$4" > "/run/trust/$2" ;;
*)
    trust=$(cat "/run/trust/$2" 2> /dev/null || echo pcp)
    printf 'DCBX mode: OS controlled\\nPriority trust state: %s\\n' "$trust"
    ;;
esac
"""
_ETHTOOL = """#!/bin/sh
mkdir -p /run/channels
now=$(cat "/run/channels/$2" 2> /dev/null || echo 63) most=63
if [ -e "/run/without-channels/$2" ]; then now=n/a most=n/a; fi
case $1 in
-l)
    for part in "Pre-set maximums:$most" "Current hardware settings:$now"; do
        printf '%s:\\nRX:\\t\\tn/a\\nOther:\\t\\t1\\nCombined:\\t%s\\n' "${part%:*}" "${part#*:}"
    done
    ;;
-L)
    [ ! -e /run/refuse-channels ] || { echo "netlink error: Device or resource busy" >&2; exit 1; }
    echo "$4" > "/run/channels/$2"
    ;;
esac
"""
_SYSTEMCTL = """#!/bin/sh
for unit; do :; done
limit() { if [ -e "/run/loaded/$1" ]; then echo infinity; else echo 65536; fi; }
main() {
    case $1 in kubelet.service) file=/run/kubelet.pid ;; *) file=/run/active/$1 ;; esac
    cat "$file" 2> /dev/null || echo 0
}
case "$*" in
"show -p LoadState -p LimitMEMLOCK -p MainPID "*)
    state=not-found
    if [ -e "/run/services/$unit" ] || [ "$unit" = kubelet.service ]; then state=loaded; fi
    printf 'MainPID=%s\nLimitMEMLOCK=%s\nLoadState=%s\n' "$(main "$unit")" "$(limit "$unit")" $state
    exit
    ;;
"show -p ActiveState,"*LimitMEMLOCK*)
    properties=$3
    shift 3
    for unit; do
        /usr/local/lib/systemctl show -p "$properties" "$unit" | grep .
        printf 'LimitMEMLOCK=%s\n\n' "$(limit "$unit")"
    done
    exit
    ;;
daemon-reload)
    rm -rf /run/loaded
    mkdir -p /run/loaded
    for file in /etc/systemd/system/*.d/*.conf; do
        if grep -qs LimitMEMLOCK=infinity "$file"; then file=${file%.d/*}; : > "/run/loaded/${file##*/}"; fi
    done
    ;;
start* | restart*)
    before=$(main "$unit")
    /usr/local/lib/systemctl "$@" || exit
    now=$(main "$unit")
    if [ "$now" != "$before" ]; then
        bytes=$(limit "$unit" | sed s/infinity/unlimited/)
        printf 'Max locked memory         %-20s %-20s bytes\n' "$bytes" "$bytes" > "/run/limits.$now"
        mount --bind "/run/limits.$now" "/proc/$now/limits"
    fi
    exit
    ;;
esac
exec /usr/local/lib/systemctl "$@"
"""


def standin_rdma(systemd: dict[str, str] | None = None) -> dict[str, str]:
    """Return the programs and the kernel's files, by path; `systemd` are those of standin_systemd."""
    programs = dict(systemd or {})
    if "/usr/local/bin/systemctl" in programs:
        programs["/usr/local/lib/systemctl"] = programs.pop("/usr/local/bin/systemctl")
        programs["/usr/local/bin/systemctl"] = _SYSTEMCTL
    return {
        **programs,
        "/usr/local/bin/modprobe": _MODPROBE,
        "/usr/local/bin/rmmod": _RMMOD,
        "/usr/local/bin/rdma": _RDMA,
        "/usr/local/bin/dcb": _DCB,
        "/usr/local/bin/mlnx_qos": _MLNX_QOS,
        "/usr/local/bin/ethtool": _ETHTOOL,
        f"{FUNCTION}/class": "0x020000\n",
        f"{FUNCTION}/vendor": "0x15b3\n",
        f"{FUNCTION}/device": "0x1021\n",
        f"{FUNCTION}/numa_node": "0\n",
        f"{FUNCTION}/infiniband/mlx5_0/node_type": "1: CA\n",
        f"{FUNCTION}/infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n",
        f"{FUNCTION}/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
        f"{FUNCTION}/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
        f"{FUNCTION}/net/{INTERFACE}/type": "1\n",
        "/sys/module/mlx5_core/initstate": "live\n",
    }


def install(node: Sandbox) -> None:
    """Give the sandbox its NIC, whose driver is loaded and which has a read request of 512 bytes."""
    node.path("/run/modules").write_text(MODULES)
    config = bytearray(256)
    config[0x34] = 0x60
    config[0x60:0x62] = bytes((0x05, 0x40))  # MSI comes first
    config[0x40] = 0x10
    config[DEVICE_CONTROL : DEVICE_CONTROL + 2] = bytes((0x3F, 0x29))  # 512 bytes
    node.path(CONFIG).write_bytes(config)
    node.run(f"""
mkdir -p /sys/bus/pci/devices /sys/bus/pci/drivers/mlx5_core /sys/class/infiniband /sys/class/net /run/when
ln -s ../../../devices/pci0000:15/0000:15:01.0/{ADDRESS} /sys/bus/pci/devices/{ADDRESS}
ln -s ../../../../bus/pci/drivers/mlx5_core {FUNCTION}/driver
ln -s ../../../../module/mlx5_core /sys/bus/pci/drivers/mlx5_core/module
ln -s ../../devices/pci0000:15/0000:15:01.0/{ADDRESS}/infiniband/mlx5_0 /sys/class/infiniband/mlx5_0
ln -s ../../../{ADDRESS} {FUNCTION}/infiniband/mlx5_0/device
ln -s ../../devices/pci0000:15/0000:15:01.0/{ADDRESS}/net/{INTERFACE} /sys/class/net/{INTERFACE}
ln -s ../../../{ADDRESS} {FUNCTION}/net/{INTERFACE}/device
""")


def drives(node: Sandbox, interface: str) -> None:
    """Have the driver of the NIC drive another interface too."""
    node.run(f"mkdir -p /sys/class/net/{interface}; ln -s {FUNCTION} /sys/class/net/{interface}/device")


def read_request(node: Sandbox) -> int:
    """Return the largest read request that the NIC's config space holds, in bytes."""
    return 128 << (node.path(CONFIG).read_bytes()[DEVICE_CONTROL + 1] >> 4 & 7)


def loaded(node: Sandbox) -> set[str]:
    """Return the modules that are loaded."""
    return {folder.name for folder in node.path("/sys/module").iterdir()}
