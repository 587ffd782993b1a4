"""A fleet to start from: copy this folder, name your own hosts, and choose what each group is for.

    pyinfra inventories/example/inventory.py deploys/site.py --dry       # show every change, make none
    pyinfra inventories/example/inventory.py deploys/site.py --limit training -y

A list is a group; its host data stands in group_data/NAME.py. A host that differs is a pair of its name and
its own data, which wins over the group's. Log in as root, or as a user whom sudo asks for no password.
"""

# Eight GPUs and two packages each; jobs take whole nodes.
training = [
    "gpu-train-01.example.net",
    "gpu-train-02.example.net",
    (
        "gpu-train-03.example.net",
        {
            # This one has a storage daemon of its own, which gets a second core on every NUMA node.
            "numaforge_profile": {"extends": "training", "cpus": {"reserved": {"cores_per_numa_node": 2}}},
        },
    ),
]

# GPUs cut into MIG instances; many small pods.
inference = [
    "gpu-infer-01.example.net",
    "gpu-infer-02.example.net",
]

# No GPUs: data preparation and everything else that the cluster runs.
cpu_only = [
    "cpu-01.example.net",
]
