"""The kernel's files of a small machine: 2 packages, a NUMA node each, 2 cores with 2 threads in each."""

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node"
CPUS = range(8)
NODE_KIB = 8 * 2**20


def machine(governors: bool = True) -> dict[str, str]:
    """Return the files, by path; without governors it is like a virtual machine."""
    files = {
        f"{_CPU}/online": "0-7",
        f"{_CPU}/present": "0-7",
        f"{_CPU}/possible": "0-7",
        f"{_CPU}/offline": "",
        f"{_CPU}/isolated": "",
        f"{_NODE}/online": "0-1",
        f"{_NODE}/possible": "0-1",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "/sys/kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise [madvise] never",
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids",
        "/proc/sys/kernel/numa_balancing": "1",
        "/proc/sys/kernel/osrelease": "6.1.0",
        "/proc/sys/kernel/arch": "x86_64",
        "/proc/sys/kernel/hostname": "sandbox",
        "/proc/sys/vm/max_map_count": "65530",
        "/proc/sys/vm/swappiness": "60",
        "/proc/sys/vm/compact_memory": "",
        "/proc/sys/vm/zone_reclaim_mode": "0",
    }
    for cpu in CPUS:
        files |= _cpu(cpu)
        if governors:
            files |= {
                f"{_CPU}/cpu{cpu}/cpufreq/scaling_driver": "acpi-cpufreq",
                f"{_CPU}/cpu{cpu}/cpufreq/scaling_governor": "schedutil",
                f"{_CPU}/cpu{cpu}/cpufreq/scaling_available_governors": "performance schedutil",
            }
    for node in (0, 1):
        files |= _numa_node(node)
    return {path: f"{text}\n" for path, text in files.items()}


def pool(node: int, kib: int) -> str:
    """Return the path of a pool's number of pages."""
    return f"{_NODE}/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages"


def governor(cpu: int) -> str:
    """Return the path of a CPU's governor."""
    return f"{_CPU}/cpu{cpu}/cpufreq/scaling_governor"


def _cpu(cpu: int) -> dict[str, str]:
    package, core = cpu % 4 // 2, cpu % 2
    siblings = f"{cpu % 4},{cpu % 4 + 4}"
    members = "0-1,4-5" if package == 0 else "2-3,6-7"
    folder = f"{_CPU}/cpu{cpu}"
    return {
        f"{folder}/online": "1",
        f"{folder}/topology/physical_package_id": str(package),
        f"{folder}/topology/core_id": str(core),
        f"{folder}/topology/core_cpus_list": siblings,
        f"{folder}/topology/thread_siblings_list": siblings,
        f"{folder}/topology/package_cpus_list": members,
        f"{folder}/cache/index3/level": "3",
        f"{folder}/cache/index3/type": "Unified",
        f"{folder}/cache/index3/size": "32768K",
        f"{folder}/cache/index3/shared_cpu_list": members,
    }


def _numa_node(node: int) -> dict[str, str]:
    folder = f"{_NODE}/node{node}"
    files = {
        f"{folder}/cpulist": "0-1,4-5" if node == 0 else "2-3,6-7",
        f"{folder}/distance": "10 21" if node == 0 else "21 10",
        f"{folder}/meminfo": f"Node {node} MemTotal: {NODE_KIB} kB\nNode {node} MemFree: 4096000 kB",
    }
    for kib in (2048, 2**20):
        files |= {
            f"{folder}/hugepages/hugepages-{kib}kB/nr_hugepages": "0",
            f"{folder}/hugepages/hugepages-{kib}kB/free_hugepages": "0",
            f"{folder}/hugepages/hugepages-{kib}kB/surplus_hugepages": "0",
        }
    return files
