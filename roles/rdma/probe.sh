# shellcheck shell=sh
# Character devices of RDMA.

tell_rdma_devices() { # below /dev, by RDMA device
    for file in /sys/class/infiniband_verbs/uverbs*/ibdev /sys/class/infiniband_mad/umad*/ibdev; do
        device=${file%/ibdev}
        device=${device##*/}
        [ ! -c "/dev/infiniband/$device" ] || printf 'rdma %s-%s\t%s\n' "$(cat "$file")" "${device%%[0-9]*}" "$device"
    done
}
