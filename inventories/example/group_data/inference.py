"""Inference nodes: the ready profile, with hugepages for the model servers."""

numaforge_profile = {
    "extends": "inference-mig",
    "name": "inference",
    # Pages are set aside at boot, on every NUMA node alike, before memory is fragmented.
    "hugepages": [{"size": "1Gi", "count_per_numa_node": 16}],
    "kubelet": {
        # What the nodes' kubelet configuration says already is respected: a contradiction is an error that
        # names both values. `override` lets the profile win.
        "on_conflict": "refuse",
    },
}
