"""The labels of a Node that the device plugin and the GPU operator read, and our own about MIG."""

CONFIG_LABEL = "nvidia.com/device-plugin.config"
STRATEGY_LABEL = "nvidia.com/mig.strategy"
OPERATOR_LABEL = "nvidia.com/mig.config"
OPERATOR_STATE_LABEL = "nvidia.com/mig.config.state"
MIG_LABEL = "numaforge.io/mig"
