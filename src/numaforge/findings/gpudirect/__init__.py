"""The GPUDirect doctor: whether GPUs and NICs reach each other, why not, and what helps."""

from numaforge.findings.gpudirect.rules import RULES

__all__ = ["RULES"]
