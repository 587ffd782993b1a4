"""Kernel parameters that a profile may name freely, by purpose, and those that none may name.

A parameter in neither table may make the node unreachable, and needs `kernel.unsafe` with its risk. Sources:
Documentation/admin-guide/kernel-parameters.txt; systemd(1) and kernel-command-line(7) for what they read.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache

# The patterns of words in angle brackets: text that no boot loader's script misreads. The kernel checks the
# rest of a value's syntax.
_VALUES = {
    "<n>": "[0-9]+",
    "<0|1>": "[01]",
    "<y|n>": "[01yYnN]",
    "<size>": "[0-9]+[KMGTkmgt]?",
    "<cpus>": r"(all|[0-9N]+(-[0-9N]+(:[0-9]+/[0-9]+)?)?)(,[0-9N]+(-[0-9N]+(:[0-9]+/[0-9]+)?)?)*",
    "<flags>": "((nohz|domain|managed_irq),)*",
    "<gpus>": "(10de|1002):[0-9a-f]{4}(,(10de|1002):[0-9a-f]{4})*",
    "<text>": "[A-Za-z0-9_.,:/@%+=;~-]+",
    "<mask>": "(0x[0-9a-f]+|[0-9a-f,]+)",
}

# NAME for a switch, NAME=VALUE|VALUE for the accepted values; "*" in a name stands for letters, digits, "_"
# and "-".
ACCEPTED: Mapping[str, tuple[str, ...]] = {
    "CPU isolation": (
        "isolcpus=<flags><cpus>",
        "irqaffinity=<cpus>",
        "kthread_cpus=<cpus>",
        "workqueue.unbound_cpus=<cpus>",
        "systemd.cpu_affinity=<cpus>",
        "tuned.non_isolcpus=<mask>",
        "threadirqs",
        "preempt=none|voluntary|full|lazy",
    ),
    "ticks": ("nohz=on|off", "nohz_full=<cpus>", "skew_tick=<0|1>", "highres=on|off"),
    "RCU": (
        "rcu_nocbs=<cpus>",
        "rcu_nocbs",
        "rcu_nocb_poll",
        "rcutree.kthread_prio=<n>",
        "rcutree.*=<n>",
        "rcupdate.*=<n>",
    ),
    "IOMMU": (
        "intel_iommu=on|off|sm_on|sm_off|on,sm_on|on,sm_off|igfx_off|on,igfx_off",
        "amd_iommu=off|force_enable|pgtbl_v1|pgtbl_v2",
        "iommu=pt|nopt|force|noforce|on|strict",
        "iommu.passthrough=<0|1>",
        "iommu.strict=<0|1>",
        "vfio_pci.ids=<gpus>",
        "vfio_pci.disable_vga=<y|n>",
        "vfio_pci.disable_idle_d3=<y|n>",
    ),
    "huge pages": (
        "default_hugepagesz=2M|1G|32M|512M|64K|16G",
        "hugetlb_free_vmemmap=on|off",
        "transparent_hugepage=always|madvise|never",
        "transparent_hugepage_shmem=always|within_size|advise|never|deny|force",
    ),
    "memory": (
        "init_on_alloc=<0|1>",
        "init_on_free=<0|1>",
        "numa_balancing=enable|disable",
        "page_alloc.shuffle=<y|n>",
        "slab_nomerge",
        "randomize_kstack_offset=on|off",
        "memory_hotplug.online_policy=contig-zones|auto-movable",
    ),
    "sleep states and frequencies": (
        "idle=poll|halt|nomwait",
        "intel_idle.max_cstate=<n>",
        "processor.max_cstate=<n>",
        "cpuidle.off=<0|1>",
        "cpuidle.governor=menu|ladder|teo|haltpoll",
        "cpufreq.off=<0|1>",
        "cpufreq.default_governor=performance|powersave|schedutil|ondemand|conservative|userspace",
        "intel_pstate=active|passive|disable|no_hwp|hwp_only|per_cpu_perf_limits",
        "amd_pstate=active|passive|guided|disable",
        "workqueue.power_efficient=<y|n>",
        "nvme_core.default_ps_max_latency_us=<n>",
    ),
    "PCI": (
        "pci=<pci>",
        "pcie_aspm=off",
        "pcie_aspm.policy=default|performance|powersave|powersupersave",
        "pcie_ports=native",
    ),
    "clocks": (
        "tsc=reliable|nowatchdog|recalibrate",
        "clocksource=tsc|hpet|acpi_pm|kvm-clock|arch_sys_counter",
        "hpet=disable",
        "no_timer_check",
    ),
    "watchdogs and crashes": (
        "nmi_watchdog=0|1|panic|nopanic",
        "nowatchdog",
        "nosoftlockup",
        "watchdog_thresh=<n>",
        "softlockup_panic=<0|1>",
        "hung_task_panic=<0|1>",
        "panic=<n>",
        "crashkernel=<crashkernel>",
        "pcie_ecrc=bios|on|off",
    ),
    "control groups": (
        "systemd.unified_cgroup_hierarchy=<0|1>",
        "systemd.legacy_systemd_cgroup_controller=<0|1>",
        "cgroup_no_v1=all",
        "cgroup_enable=memory|cpuset",
        "swapaccount=<0|1>",
        "psi=<0|1>",
    ),
    "consoles and logs": (
        "console=<console>",
        "earlyprintk=serial,ttyS<n>|serial,ttyS<n>,<n>|efi",
        "earlycon",
        "earlycon=<earlycon>",
        "loglevel=<n>",
        "log_buf_len=<size>",
        "ignore_loglevel",
        "printk.time=<y|n>",
        "printk.devkmsg=on|off|ratelimit",
        "consoleblank=<n>",
        "no_console_suspend",
        "8250.nr_uarts=<n>",
        "nomodeset",
        "quiet",
        "splash",
        "nosplash",
        "debug",
        "systemd.show_status=<0|1>",
    ),
    "audit": ("audit=0|1|on|off", "audit_backlog_limit=<n>"),
    "random numbers": ("random.trust_cpu=on|off", "random.trust_bootloader=on|off"),
    "virtual machines": (
        "kvm_intel.nested=<y|n>",
        "kvm_amd.nested=<y|n>",
        "kvm.nx_huge_pages=off|force|auto",
    ),
    "drivers of GPUs": (
        "module_blacklist=<framebuffers>",
        "modprobe.blacklist=<framebuffers>",
        "nouveau.modeset=<0|1>",
        "nvidia.NVreg_*=<text>",
        "nvidia_drm.modeset=<y|n>",
        "nvidia_drm.fbdev=<y|n>",
        "nvidia_uvm.*=<text>",
        "nvidia_peermem.*=<text>",
        "amdgpu.*=<text>",
    ),
    "drivers of NICs and drives": (
        "mlx5_core.*=<text>",
        "ib_*.*=<text>",
        "rdma_*.*=<text>",
        "nvme_core.io_timeout=<n>",
        "nvme_core.max_retries=<n>",
        "nvme.poll_queues=<n>",
        "nvme.write_queues=<n>",
    ),
}

_PCI_OPTION = (
    "(realloc(=(on|off))?|pcie_bus_(perf|safe|peer2peer|tune_off)|noaer|noats|ecrc=(bios|on|off)|big_root_window|"
    "hp(io|mem|mmio|mmiopref)size=[0-9]+[KMGkmg]?|hpbussize=[0-9]+|resource_alignment=[0-9@A-Fa-f:.]+|"
    "disable_acs_redir=[0-9A-Za-z:.]+|config_acs=[01x@0-9A-Fa-f:.]+)"
)
_FRAMEBUFFERS = "(nouveau|nova_core|nova_drm|nvidiafb|rivafb|rivatv)"
_VALUES |= {
    "<pci>": f"{_PCI_OPTION}(,{_PCI_OPTION})*",
    "<framebuffers>": f"{_FRAMEBUFFERS}(,{_FRAMEBUFFERS})*",
    "<console>": r"(tty[0-9]+|(ttyS|ttyAMA|hvc)[0-9]+(,[0-9]+[noe]?[0-9]?r?)?)",
    "<earlycon>": r"(efifb(,ram)?|(uart|uart8250|pl011|ns16550a?),((io|mmio(16|32)?),)?0x[0-9A-Fa-f]+"
    r"(,[0-9]+[noe]?[0-9]?)?)",
    "<crashkernel>": r"(auto|[0-9]+[KMGkmg](,(high|low))?|[0-9]+[KMGkmg]?-([0-9]+[KMGkmg]?)?:[0-9]+[KMGkmg]"
    r"(,[0-9]+[KMGkmg]?-([0-9]+[KMGkmg]?)?:[0-9]+[KMGkmg])*)(@[0-9]+[KMGkmg]?)?",
}
_EXAMPLES = {
    "<gpus>": "ids of GPUs such as 10de:2330",
    "<pci>": "realloc, realloc=off, noaer, noats, pcie_bus_perf, disable_acs_redir= and the like",
    "<framebuffers>": "drivers of displays, such as nouveau",
    "<console>": "tty0, ttyS0,115200 and the like",
    "<earlycon>": "efifb, uart8250,io,0x3f8,115200 and the like",
    "<crashkernel>": "512M, 1G-4G:192M,4G-:256M and the like",
    "<cpus>": "a cpulist",
    "<flags>": "nohz,domain,managed_irq, in any number before ",
    "<n>": "a number",
    "<size>": "a size",
    "<text>": "a value without spaces",
    "<mask>": "a mask of CPUs",
    "<0|1>": "0, 1",
    "<y|n>": "0, 1, Y, N",
}

# What no profile may set, and why: it is specific to a machine, or decides what the machine boots into.
_BOOT_LOADER = "the boot loader of each machine sets it"
_ROOT = "it names the file system that this machine boots from"
_FIRST_PROCESS = "it decides what starts at boot, and the kubelet might not"
_NUMBER_OF_CPUS = "it decides which CPUs there are, which cpus.smt and cpus.offline say"
_INITIAL_RAM_DISK = "it is for the initial RAM disk, which has to find this machine's disks"
_REFUSED_NAMES = {
    **dict.fromkeys(("BOOT_IMAGE", "initrd"), _BOOT_LOADER),
    **dict.fromkeys(("root", "rootfstype", "rootflags", "rootwait", "rootdelay", "ro", "rw"), _ROOT),
    **dict.fromkeys(("nfsroot", "netroot", "resume", "resume_offset", "boot", "overlayroot"), _ROOT),
    **dict.fromkeys(("roothash", "usrhash", "mount.usr", "mount.usrfstype", "mount.usrflags"), _ROOT),
    **dict.fromkeys(("init", "rdinit", "single", "emergency", "rescue", "recovery"), _FIRST_PROCESS),
    **dict.fromkeys(("s", "S", "b", *"0123456789"), _FIRST_PROCESS),  # systemd(1): runlevels
    **dict.fromkeys(("systemd.unit", "systemd.wants", "systemd.mask", "systemd.run"), _FIRST_PROCESS),
    **dict.fromkeys(("systemd.volatile", "systemd.confirm_spawn", "systemd.debug_shell"), _FIRST_PROCESS),
    **dict.fromkeys(("systemd.run_success_action", "systemd.run_failure_action"), _FIRST_PROCESS),
    **dict.fromkeys(("nosmt", "maxcpus", "nr_cpus", "possible_cpus", "nosmp"), _NUMBER_OF_CPUS),
    "break": _INITIAL_RAM_DISK,
}
_REFUSED_PREFIXES = ("rd.", "rd_", "luks.")  # dracut's parameters, and those that unlock disks

_ELSEWHERE = {
    "hugepages": "hugepages with at: boot, which counts the machine's memory",
    "hugepagesz": "hugepages with at: boot, which counts the machine's memory",
}


REPEATED = frozenset({"console", "earlycon", "crashkernel"})
"""Parameters of which the kernel takes each: the last console is /dev/console."""


def with_one_pci(words: Sequence[str]) -> list[str]:
    """Return the words with the options of all `pci=` in the first: the kernel reads each of them."""
    options = ",".join(word.removeprefix("pci=") for word in words if word.startswith("pci="))
    first = next((index for index, word in enumerate(words) if word.startswith("pci=")), None)
    words_kept = [word for word in words if not word.startswith("pci=")]
    return words_kept if first is None else [*words_kept[:first], f"pci={options}", *words_kept[first:]]


def isolated_by(words: Sequence[str]) -> str:
    """Return the CPUs that isolcpus= takes from the scheduler; flags without `domain` take none."""
    for word in words:
        match = re.fullmatch(r"isolcpus=((?:nohz,|domain,|managed_irq,)*)(.+)", word)
        if match and (not match[1] or "domain" in match[1]):
            return match[2]
    return ""


def parameter_name(parameter: str) -> str:
    """Return the name of a kernel parameter; the kernel reads "-" in a name as "_"."""
    return parameter.partition("=")[0].replace("-", "_")


def refusal(parameter: str) -> str | None:
    """Return why no profile may set a parameter, None where one may."""
    name = parameter_name(parameter)
    return _INITIAL_RAM_DISK if name.startswith(_REFUSED_PREFIXES) else _REFUSED_NAMES.get(name)


def refused_pattern() -> str:
    """Return the pattern of what no profile may set, for schemas."""
    prefixes = "|".join(map(_spelled, _REFUSED_PREFIXES))
    names = "|".join(map(_spelled, _REFUSED_NAMES))
    return f"^(({prefixes})|({names})(=|$))"


def doubt(parameter: str) -> str | None:
    """Return why a parameter is not accepted as harmless; None for an accepted one."""
    if _accepted().fullmatch(parameter):
        return None
    name, equals, _ = parameter.partition("=")
    forms = [form for form in _forms() if re.fullmatch(_name_pattern(form.partition("=")[0]), name)]
    if not forms:
        return "is not among the parameters that are known to leave a node as reachable as it was"
    if not equals:
        return f"has no value; known are {_alternatives(forms)}"
    return f"has a value that is not known to be harmless; known are {_alternatives(forms)}"


def elsewhere(parameter: str) -> str | None:
    """Return the section of a profile that sets a parameter instead, None where there is none."""
    return _ELSEWHERE.get(parameter_name(parameter))


def accepted_pattern() -> str:
    """Return the pattern of the parameters that need no acknowledgement, for schemas."""
    return f"^({'|'.join(_form_pattern(form) for form in _forms())})$"


def _forms() -> list[str]:
    return [form for forms in ACCEPTED.values() for form in forms]


def _form_pattern(form: str) -> str:
    name, equals, values = form.partition("=")
    if not equals:
        return _name_pattern(name)
    return f"{_name_pattern(name)}=({'|'.join(_value_pattern(value) for value in _split(values))})"


def _name_pattern(name: str) -> str:
    return "[A-Za-z0-9_-]+".join(_spelled(piece) for piece in name.split("*"))


def _spelled(name: str) -> str:
    """Return the pattern of a name, in which "-" also matches where the table has "_"."""
    return re.escape(name).replace("_", "[_-]")


def _split(values: str) -> list[str]:
    """Return the alternatives; "|" within angle brackets separates nothing."""
    return re.findall(r"(?:<[^>]*>|[^|<])+", values)


def _value_pattern(value: str) -> str:
    pieces = re.split(r"(<[^>]+>)", value)
    return "".join(_VALUES.get(piece, re.escape(piece)) for piece in pieces)


def _alternatives(forms: list[str]) -> str:
    values = [value for form in forms for value in _split(form.partition("=")[2])]
    return (
        ", ".join(re.sub("<[^>]+>", lambda found: _EXAMPLES[found[0]], value) for value in values) or "none"
    )


@cache
def _accepted() -> re.Pattern[str]:
    """Return the pattern of all accepted parameters; compiling takes 10 ms, and most profiles name none."""
    return re.compile(accepted_pattern())
