"""Documents as people write them, before anything is changed in them."""

from numaforge.machine.topology.document import to_document
from numaforge.planning import document as plans
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures import machines

LAB = machines.lab_node()
LAB_DOCUMENT = to_document(LAB)
DGX_DOCUMENT = to_document(machines.dgx_h100())
PLAN_DOCUMENT = plans.to_document(plan_node(machines.dgx_h100(), load_profile("inference-mig")))
PODS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, labels: {since: 2025-02-28}}
spec:
  replicas: 2
  template:
    spec:
      initContainers:
      - {name: fetch, restartPolicy: Always, resources: {requests: {cpu: 500m}}}
      containers:
      - name: main
        resources: {limits: {cpu: "4", memory: 8Gi, hugepages-2Mi: 64Mi, nvidia.com/gpu: 1}}
---
kind: List
items:
- {kind: Pod, metadata: {name: a}, spec: {containers: [{name: x, resources: {limits: {cpu: 1e0}}}]}}
"""
DEVICES = '{"nvidia.com/gpu": [0, 0, [1, 2], null, {"id": "GPU-1", "numa_nodes": [3], "healthy": false}]}'
PROFILE = """\
name: mine
cpus:
  reserved: {cores: 2}
hugepages:
- {size: 2Mi, count_per_numa_node: 16}
kubelet:
  topology_manager_policy: restricted
  cpu_manager_policy: static
memory:
  kube_reserved: 256Mi
  system_reserved: 256Mi
tuning:
  sysctls: {vm.swappiness: 1}
  governor: performance
sources: {tuning.governor: "https://docs.kernel.org/admin-guide/pm/cpufreq.html"}
"""
MIG = """\
version: v1
mig-configs:
  half:
  - {device-filter: ["0x233010DE"], devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 2, 3g.40gb: 1}}
  - {devices: all, mig-enabled: false}
"""
DEVICE_PLUGIN = """\
version: v1
flags: {migStrategy: mixed, plugin: {deviceListStrategy: envvar}}
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
"""
RDMA_PLUGIN = """\
{"periodicUpdateInterval": 300, "configList": [
  {"resourceName": "hca", "resourcePrefix": "rdma", "rdmaHcaMax": 1000,
   "selectors": {"vendors": ["15b3"], "ifNames": ["ens1f0"], "linkTypes": ["ether"]}}]}
"""
