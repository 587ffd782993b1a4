"""The labels that a roll-out sets on the Node."""

from numaforge.lib.reasons import Decision, Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.profile import NodeProfile
from numaforge.roles.amd_partitions.config_manager import PROFILE_LABEL, manager_profile_name
from numaforge.roles.amd_partitions.instance import AmdPartitionsPlan
from numaforge.roles.device_plugin.labels import CONFIG_LABEL, MIG_LABEL, OPERATOR_LABEL, STRATEGY_LABEL
from numaforge.roles.device_plugin.plan import in_mig_mode
from numaforge.roles.device_plugin.section import DevicePlugin
from numaforge.roles.kubelet.delivery import KubeletPlan
from numaforge.roles.mig.instance import MigPlan
from numaforge.roles.mig.operator import operator_config_name
from numaforge.roles.rdma.manifests import POOLS_LABEL, pools_name
from numaforge.roles.rdma.planned import RdmaPlan


def plan_labels(
    machine: NodeTopology,
    profile: NodeProfile,
    mig: MigPlan,
    partitions: AmdPartitionsPlan,
    rdma: RdmaPlan,
    kubelet: KubeletPlan | None,
) -> Reasoned[dict[str, str]]:
    plugin = profile.device_plugin != DevicePlugin()
    by_operator = mig.managed_by == "gpu-operator"
    handed = partitions.managed_by == "device-config-manager"
    labels = {
        PROFILE_LABEL: manager_profile_name(profile.name, partitions) if handed else None,
        MIG_LABEL: mig.label,
        OPERATOR_LABEL: operator_config_name(profile.name, mig, machine) if by_operator else None,
        CONFIG_LABEL: profile.device_plugin.config if plugin else None,
        STRATEGY_LABEL: mig.strategy if plugin and mig.strategy != "none" and in_mig_mode(machine) else None,
        POOLS_LABEL: pools_name(rdma, kubelet) if rdma.pools_deployed else None,
    }
    planned = {name: value for name, value in sorted(labels.items()) if value is not None}
    decisions = tuple(Decision(f"labels.{name}", value, REASONS[name]) for name, value in planned.items())
    return Reasoned(planned, decisions)


REASONS = {
    PROFILE_LABEL: "AMD's device config manager sets the modes of the profile of this name",
    CONFIG_LABEL: "the device plugin takes the configuration of this name",
    STRATEGY_LABEL: "GPU feature discovery reports the same for the device plugin",
    OPERATOR_LABEL: "the GPU operator's MIG manager cuts the GPUs so",
    MIG_LABEL: "jobs that need whole GPUs choose by it",
    POOLS_LABEL: "the shared RDMA device plugin with these pools runs on it",
}
