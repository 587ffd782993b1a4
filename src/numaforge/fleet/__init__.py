"""Many machines together: audited, measured, monitored."""
