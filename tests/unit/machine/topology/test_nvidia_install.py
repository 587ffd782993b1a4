"""What files show of NVIDIA's software; what was not captured stays unknown."""

import pytest

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.nvidia_install import read_nvidia_install, read_nvswitches

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
CONTAINER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54  Thu Feb 22 2024\n"


def install(files=None, links=None, **said):
    commands = {name.replace("_", " "): answer for name, answer in said.items()}
    files = {"/proc/driver/nvidia/version": OPEN, **(files or {})}
    return read_nvidia_install(Snapshot(files=files, links=links or {}, commands=commands))


@pytest.mark.parametrize(
    ("said", "version", "is_open"),
    [
        pytest.param(OPEN, "580.95.05", True, id="open"),
        pytest.param(CLOSED, "535.183.01", False, id="proprietary"),
        pytest.param(CONTAINER, "550.54", False, id="a version of two numbers"),
    ],
)
def test_loaded_module_gives_its_version_and_kind(said, version, is_open):
    found = install({"/proc/driver/nvidia/version": said})
    assert (found.loaded, found.open_module) == (version, is_open)


def test_host_without_a_trace_of_nvidia_software_has_no_install():
    assert (
        read_nvidia_install(Snapshot(files={}, commands={"present": "/dev/char/1:3", "daemons": ""})) is None
    )


@pytest.mark.parametrize(
    ("links", "version"),
    [
        pytest.param(
            {"/usr/lib64/libnvidia-ml.so.1": "/usr/lib64/libnvidia-ml.so.580.95.05"}, "580.95.05", id="x"
        ),
        pytest.param(
            {"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": "/etc/alternatives/glx--libnvidia-ml.so.1"},
            None,
            id="behind another link",
        ),
        pytest.param({}, None, id="no library"),
    ],
)
def test_library_version_comes_from_its_file_name(links, version):
    assert install(links=links).library == version


@pytest.mark.parametrize(
    ("rules", "arguments", "kept_out"),
    [
        pytest.param("blacklist nouveau\n", "", True, id="blacklist"),
        pytest.param("install nouveau /bin/false\n", "", True, id="install"),
        pytest.param("# blacklist nouveau\n", "", False, id="a comment"),
        pytest.param("blacklist nouveaux\n", "", False, id="another module"),
        pytest.param("options a b=1\n", "quiet rd.driver.blacklist=nova_core,nouveau", True, id="cmdline"),
        pytest.param("options a b=1\n", "modprobe.blacklist=nova_core", False, id="another on the cmdline"),
        pytest.param(None, "modprobe.blacklist=nouveau", None, id="not captured"),
    ],
)
def test_nouveau_is_blocked_by_modprobe_or_the_command_line(rules, arguments, kept_out):
    files = {"/proc/cmdline": arguments}
    if rules is not None:
        files["/usr/lib/modprobe.d/a.conf"] = rules
    assert install(files).nouveau_kept_out is kept_out


@pytest.mark.parametrize(
    ("present", "links"),
    [
        pytest.param("/dev/char/1:3 /dev/char/195:0", True, id="linked"),
        pytest.param("/dev/char/1:3", False, id="only others are linked"),
        pytest.param("/sys/module/nvidia", None, id="nothing is linked at all"),
    ],
)
def test_char_links_are_known_only_where_udev_makes_them(present, links):
    assert install(present=present).char_links is links


@pytest.mark.parametrize(
    ("present", "links", "service"),
    [
        pytest.param("", {}, None, id="not installed"),
        pytest.param("/usr/bin/nvidia-imex", {}, "disabled", id="installed"),
        pytest.param(
            "/usr/bin/nvidia-imex /etc/systemd/system/multi-user.target.wants/nvidia-imex.service",
            {},
            "enabled",
            id="wanted",
        ),
        pytest.param(
            "/usr/bin/nvidia-imex",
            {"/etc/systemd/system/nvidia-imex.service": "/dev/null"},
            "masked",
            id="masked",
        ),
    ],
)
def test_state_of_the_imex_service_is_read(present, links, service):
    assert install(links=links, present=present).imex_service == service


def test_package_versions_lose_epoch_and_distribution_suffix():
    rows = (
        "install installed nvidia-fabricmanager-580 1:580.95.05-0ubuntu0.24.04.1\n"
        "deinstall config-files nvidia-imex-570 570.1-1\ninstall installed nvlsm 2025.06.6-1\n"
    )
    assert install(nvidia_packages=rows).packages == {
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


@pytest.mark.parametrize(
    ("parameters", "mode"),
    [
        pytest.param('ImexChannelCount: 2048\nCoherentGPUMemoryMode: "driver"\n', "driver", id="driver"),
        pytest.param('CoherentGPUMemoryMode: "numa"\nRmMsg: ""\n', "numa", id="numa"),
        pytest.param('CoherentGPUMemoryMode: ""\n', "", id="the branch's default"),
        pytest.param("EnableMSI: 1\n", None, id="a module that does not have the option"),
        pytest.param("", None, id="not captured"),
    ],
)
def test_running_module_gives_the_gpu_memory_mode(parameters, mode):
    assert install({"/proc/driver/nvidia/params": parameters}).gpu_memory_mode == mode


OPTIONS = "options nvidia NVreg_CoherentGPUMemoryMode"


@pytest.mark.parametrize(
    ("files", "mode"),
    [
        pytest.param({}, None, id="not captured"),
        pytest.param({"/etc/modprobe.d/a.conf": "blacklist nouveau\n"}, "", id="not set"),
        pytest.param({"/etc/modprobe.d/a.conf": f"{OPTIONS}=driver\n"}, "driver", id="set"),
        pytest.param(
            {"/etc/modprobe.d/b.conf": f"{OPTIONS}=numa\n", "/lib/modprobe.d/a.conf": f"{OPTIONS}=driver\n"},
            "numa",
            id="the later name counts",
        ),
        pytest.param(
            {"/etc/modprobe.d/a.conf": "\n", "/lib/modprobe.d/a.conf": f"{OPTIONS}=driver\n"},
            "",
            id="a file of the admin's hides the package's",
        ),
        pytest.param(
            {
                "/etc/modprobe.d/a.conf": f"{OPTIONS}=driver\n",
                "/proc/cmdline": "quiet nvidia.NVreg_CoherentGPUMemoryMode=numa",
            },
            "numa",
            id="the command line is last",
        ),
        pytest.param(
            {"/etc/modprobe.d/a.conf": "options nvidia NVreg_A=1 NVreg_CoherentGPUMemoryMode=driver\n"},
            "driver",
            id="among others",
        ),
        pytest.param({"/etc/modprobe.d/a.conf": f"# {OPTIONS}=driver\n"}, "", id="a comment"),
    ],
)
def test_modprobe_options_give_the_next_gpu_memory_mode(files, mode):
    assert install(files).gpu_memory_mode_next == mode
