"""All rules about the GPUs of a machine, their driver and their fabric, by id."""

from numaforge.findings.gpus import amd, nvidia_driver, nvidia_fabric, nvidia_health, nvidia_memory, pcie

_TABLES = (
    amd.RULES,
    nvidia_driver.RULES,
    nvidia_fabric.RULES,
    nvidia_health.RULES,
    nvidia_memory.RULES,
    pcie.RULES,
)
RULES = tuple(sorted((rule for table in _TABLES for rule in table), key=lambda rule: rule.id))
