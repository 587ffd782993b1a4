# shellcheck shell=sh
# Waits for RDMA devices: rdma-gate.sh SECONDS DEVICE... ADDRESS=COUNT...; COUNT virtual functions of the PCI address
# must have an RDMA device.

gate_missing() { # sets `missing`
    missing=
    for wish in "$@"; do
        case $wish in
        *=*)
            have=0
            for function in "/sys/bus/pci/devices/${wish%=*}"/virtfn*/infiniband/*; do
                if [ -e "$function" ]; then have=$((have + 1)); fi
            done
            if [ "$have" -lt "${wish##*=}" ]; then missing="$missing $wish (has $have)"; fi
            ;;
        *) if [ ! -e "/sys/class/infiniband/$wish" ]; then missing="$missing $wish"; fi ;;
        esac
    done
    [ -n "$missing" ]
}
gate() { # SECONDS WISH...
    left=$1
    shift
    while gate_missing "$@"; do
        if [ "$left" -le 0 ]; then
            echo "still missing:$missing; the kubelet starts without them" >&2
            return 1
        fi
        sleep 1
        left=$((left - 1))
    done
}
gate "$@"
