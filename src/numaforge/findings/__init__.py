"""Findings: their one form, the engine of rules, and a table of rules for each subject."""

from numaforge.findings.finding import Finding, Rule, Severity

__all__ = ["Finding", "Rule", "Severity"]
