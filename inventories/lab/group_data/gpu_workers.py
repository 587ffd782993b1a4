"""Host data of the lab's GPU workers: a ready profile, sized for virtual machines of a few GiB."""

# Time passes slowly there: an emulated kubelet takes ten times as long for all else.
kubelet_stable_seconds = 1

numaforge_profile = {
    "extends": "inference-mig",
    "name": "lab",
    "memory": {
        "kube_reserved": "256Mi",
        "system_reserved": "256Mi",
        "eviction_hard": {"memory.available": "100Mi"},
    },
    "mig": {"gpus": []},  # without a driver nothing can cut GPUs
    "maintenance": {"rehearsal": "never"},  # takes a minute on an emulated node
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 64}],
    "tuning": {"sysctls": {"vm.min_free_kbytes": 32768}},
}
