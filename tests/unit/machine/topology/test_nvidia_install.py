"""What files show of NVIDIA's software; what was not captured stays unknown."""

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.nvidia_install import read_nvidia_install, read_nvswitches
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
CONTAINER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54  Thu Feb 22 2024\n"


def install(files=None, links=None, **said):
    commands = {name.replace("_", " "): answer for name, answer in said.items()}
    files = {"/proc/driver/nvidia/version": OPEN, **(files or {})}
    return read_nvidia_install(Snapshot(files=files, links=links or {}, commands=commands))


@cases(
    "said, version, is_open",
    {
        "open": (OPEN, "580.95.05", True),
        "proprietary": (CLOSED, "535.183.01", False),
        "a version of two numbers": (CONTAINER, "550.54", False),
    },
)
def test_loaded_module_gives_its_version_and_kind(said, version, is_open):
    found = install({"/proc/driver/nvidia/version": said})
    assert (found.loaded, found.open_module) == (version, is_open)


def test_host_without_a_trace_of_nvidia_software_has_no_install():
    assert (
        read_nvidia_install(Snapshot(files={}, commands={"present": "/dev/char/1:3", "daemons": ""})) is None
    )


@cases("links, version", CASES["library_version_comes_from_its_file_name"])
def test_library_version_comes_from_its_file_name(links, version):
    assert install(links=links).library == version


@cases("rules, arguments, kept_out", CASES["nouveau_is_blocked_by_modprobe_or_the_command_line"])
def test_nouveau_is_blocked_by_modprobe_or_the_command_line(rules, arguments, kept_out):
    files = {"/proc/cmdline": arguments}
    if rules is not None:
        files["/usr/lib/modprobe.d/a.conf"] = rules
    assert install(files).nouveau_kept_out is kept_out


@cases("present, links", CASES["char_links_are_known_only_where_udev_makes_them"])
def test_char_links_are_known_only_where_udev_makes_them(present, links):
    assert install(present=present).char_links is links


@cases("present, links, service", CASES["state_of_the_imex_service_is_read"])
def test_state_of_the_imex_service_is_read(present, links, service):
    assert install(links=links, present=present).imex_service == service


def test_package_versions_lose_epoch_and_distribution_suffix():
    rows = (
        "install installed nvidia-fabricmanager-580 1:580.95.05-0ubuntu0.24.04.1\n"
        "deinstall config-files nvidia-imex-570 570.1-1\ninstall installed nvlsm 2025.06.6-1\n"
    )
    assert install(packages=rows).packages == {
        "nvidia-fabricmanager-580": "580.95.05",
        "nvlsm": "2025.06.6",
    }


def function(address, vendor, device):
    folder = f"/sys/bus/pci/devices/{address}"
    return {f"{folder}/vendor": f"0x{vendor}\n", f"{folder}/device": f"0x{device}\n"}


def test_nvswitches_are_known_by_their_pci_ids():
    files = {
        **function("0000:1b:00.0", "10de", "2330"),
        **function("0000:05:00.0", "10de", "22a3"),
        **function("0000:06:00.0", "10de", "1af1"),
        **function("0000:07:00.0", "8086", "22a3"),
    }
    assert read_nvswitches(Snapshot(files=files)) == ("0000:05:00.0", "0000:06:00.0")


@cases("parameters, mode", CASES["running_module_gives_the_gpu_memory_mode"])
def test_running_module_gives_the_gpu_memory_mode(parameters, mode):
    assert install({"/proc/driver/nvidia/params": parameters}).gpu_memory_mode == mode


OPTIONS = "options nvidia NVreg_CoherentGPUMemoryMode"


@cases("files, mode", CASES["modprobe_options_give_the_next_gpu_memory_mode"])
def test_modprobe_options_give_the_next_gpu_memory_mode(files, mode):
    assert install(files).gpu_memory_mode_next == mode
