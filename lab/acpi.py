"""An ACPI table that gives every virtual CPU performance states, so that Linux offers cpufreq governors."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.errors import LabError
from lab.requirements import command

FREQUENCIES_MHZ = (3000, 2400, 1800, 1200)
CONTROL_PORT, STATUS_PORT = 0x5F0, 0x5F2


def source(cpus: int) -> str:
    """Return the table in ACPI source language; QEMU names the CPU devices C000, C001, ... in hexadecimal."""
    states = ", ".join(
        f"Package () {{{mhz}, {10 * mhz}, 10, 10, {index}, {index}}}"
        for index, mhz in enumerate(FREQUENCIES_MHZ)
    )
    devices = "".join(
        f"""
    External (\\_SB.CPUS.C{cpu:03X}, DeviceObj)
    Scope (\\_SB.CPUS.C{cpu:03X})
    {{
        Name (_PPC, 0)
        Name (_PCT, Package () {{
            ResourceTemplate () {{Register (SystemIO, 16, 0, 0x{CONTROL_PORT:X})}},
            ResourceTemplate () {{Register (SystemIO, 16, 0, 0x{STATUS_PORT:X})}}
        }})
        Name (_PSS, Package () {{{states}}})
        Name (_PSD, Package () {{Package () {{5, 0, {cpu}, 0xFD, 1}}}})
    }}"""
        for cpu in range(cpus)
    )
    return f'DefinitionBlock ("", "SSDT", 2, "LAB", "CPUFREQ", 1)\n{{{devices}\n}}\n'


def compile_table(cpus: int, folder: Path) -> Path:
    """Write the table for `cpus` CPUs into `folder` and return its compiled form."""
    text = folder / "cpufreq.asl"
    text.write_text(source(cpus))
    done = subprocess.run(
        [command("iasl"), "-p", str(folder / "cpufreq"), str(text)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LabError(f"iasl refused the table:\n{done.stdout}{done.stderr}", where=str(text))
    return folder / "cpufreq.aml"
