"""Governors, energy preferences, sysctls, transparent hugepages and swap, now and after every boot."""

from __future__ import annotations

from pyinfra import host

from numaforge.hosts import file_bundle, planned, role, will_read
from numaforge.kernel_paths import kernel_values
from numaforge.planning.files import TUNING_UNIT_PATH
from numaforge.render import role_files

from .facts import kernel_state_script
from .operations import FILES, kernel_settings

__all__ = ["tuning"]


@role("Tuning")
def tuning() -> None:
    """Write the settings for the next boot, then apply those that differ now."""
    plan = planned(host)
    files = role_files(plan, "tuning")
    written = [file.path for file in files]
    file_bundle(
        name="Write the kernel settings for every boot",
        files=files,
        absent=[path for path in FILES if path not in written],
    )
    will_read(host, kernel_state_script(list(kernel_values(plan.tuning))))
    kernel_settings(name="Apply the kernel settings", plan=plan.tuning, at_boot=TUNING_UNIT_PATH in written)
