"""The admin's intent: what a profile may say, checked where it enters, with every error naming its field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from numaforge.cpulist import format_cpulist, parse_cpulist
from numaforge.errors import NumaforgeError, ProfileError
from numaforge.quantity import format_bytes, parse_quantity
from numaforge.section import Section, validated

# A mapping of which exactly one key is given: merging two of them would give two.
_CHOICES = (("cpus", "reserved"),)

_PERCENT = re.compile(r"\d+(\.\d+)?%")
_HUGEPAGE_SIZE = re.compile(r"[1-9]\d*(Ki|Mi|Gi)")
_SYSCTL = re.compile(r"[a-z][\w-]*(\.[\w*/:@-]+)+", re.IGNORECASE | re.ASCII)
_VERSION = re.compile(r"v?1\.\d+(\.\d+)?([-+.].*)?")


def _byte_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(
            f"{value!r} is not a Kubernetes quantity; write for example 8Gi, 512Mi or 1073741824"
        )
    try:
        quantity = parse_quantity(value)
    except NumaforgeError as error:
        raise ValueError(f"{error.message}; {error.remedy}") from error
    if quantity < 0 or quantity.denominator != 1:
        raise ValueError(
            f"{value!r} is not a whole, positive number of bytes; write for example 8Gi or 512Mi"
        )
    return int(quantity)


def _eviction_threshold(value: object) -> str:
    text = str(value)
    if not text.endswith("%"):
        count = _byte_count(value)
        if count == 0:
            raise ValueError("the kubelet refuses a threshold of 0; write 0% for none")
        return format_bytes(count)
    if not _PERCENT.fullmatch(text) or float(text[:-1]) > 100:
        raise ValueError(f"{text!r} is not a percentage from 0% to 100%; write for example 5% or 100Mi")
    return text


def _share(value: object) -> str:
    text = str(value)
    if not _PERCENT.fullmatch(text) or not 0 < float(text[:-1]) <= 100:
        raise ValueError(f"{value!r} is not a share of a NUMA node's memory; write for example 25%")
    return text


def _cpulist(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f'{value!r} is not a cpulist; write it in quotes, for example "0-1,64-65"')
    try:
        cpus = parse_cpulist(str(value))
    except NumaforgeError as error:
        raise ValueError(f"{error.message}; {error.remedy}") from error
    if not cpus:
        raise ValueError('the cpulist is empty; name the CPUs, for example "0-1,64-65", or leave the key out')
    return format_cpulist(cpus)


def _hugepage_size(value: object) -> str:
    text = str(value)
    if not _HUGEPAGE_SIZE.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a hugepage size as Kubernetes writes it; write for example 2Mi or 1Gi"
        )
    return format_bytes(_byte_count(text))


def _kubelet_version(value: object) -> str:
    if isinstance(value, float):
        raise ValueError(
            f'{value!r} is a number to YAML, which turns 1.30 into 1.3; write it in quotes: "1.36"'
        )
    text = str(value)
    if not _VERSION.fullmatch(text):
        raise ValueError(f'{text!r} is not a kubelet version; write for example "1.36" or "1.36.2"')
    return text.removeprefix("v")


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, str)):
        return str(value)
    raise ValueError(f"{value!r} is not an option's value; write true, false or a number")


def _sysctl_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(
            f'{value!r} is not a sysctl\'s value; write a number or a text such as "4096 87380 16777216"'
        )
    return " ".join(str(value).split())


def _sysctl_name(value: object) -> str:
    text = str(value)
    if not _SYSCTL.fullmatch(text):
        raise ValueError(f"{text!r} is not a sysctl; write its dotted name, for example vm.swappiness")
    return text


def _swap(value: object) -> object:
    # YAML 1.1 reads an unquoted `off` as false.
    return "off" if value is False else value


def _thp(value: object) -> object:
    return {"enabled": value} if isinstance(value, str) else value


def _as_text(*, form: str) -> WithJsonSchema:
    """Return what the schema says of a value that is written as text of a certain form."""
    return WithJsonSchema({"type": "string", "format": form})


ByteCount = Annotated[int, BeforeValidator(_byte_count), _as_text(form="quantity")]
EvictionThreshold = Annotated[
    str, BeforeValidator(_eviction_threshold), _as_text(form="quantity or percentage")
]
Share = Annotated[str, BeforeValidator(_share), _as_text(form="percentage")]
CpulistText = Annotated[str, BeforeValidator(_cpulist), _as_text(form="cpulist")]
HugepageSize = Annotated[str, BeforeValidator(_hugepage_size), _as_text(form="hugepage size")]
VersionText = Annotated[str, BeforeValidator(_kubelet_version), _as_text(form="kubelet version")]
OptionText = Annotated[str, BeforeValidator(_option_text), _as_text(form="option value")]
SysctlName = Annotated[str, BeforeValidator(_sysctl_name), _as_text(form="sysctl name")]
SysctlText = Annotated[str, BeforeValidator(_sysctl_text), _as_text(form="sysctl value")]
Count = Annotated[int, Field(ge=0, strict=True)]
CoreCount = Annotated[int, Field(ge=1, strict=True)]
EvictionSignal = Literal[
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
]


class ReservedCpus(Section):
    """Which CPUs workloads never get: exactly one of the four ways to say it."""

    cores_per_numa_node: CoreCount | None = Field(
        default=None, description="Whole cores on every NUMA node that has CPUs.", examples=[1]
    )
    cores_per_package: CoreCount | None = Field(
        default=None, description="Whole cores in every package, spread over its NUMA nodes.", examples=[2]
    )
    cores: CoreCount | None = Field(
        default=None, description="Whole cores on the machine, spread over its NUMA nodes.", examples=[4]
    )
    cpulist: CpulistText | None = Field(
        default=None, description="Exactly these CPUs; they must be whole cores.", examples=["0-1,64-65"]
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = sorted(self.model_fields_set)
        if len(given) != 1 or getattr(self, given[0]) is None:
            said = "nothing" if not given else " and ".join(given)
            raise ValueError(f"says {said}; say exactly one of {', '.join(type(self).model_fields)}")
        return self


class Cpus(Section):
    """CPUs for the operating system and Kubernetes' own daemons."""

    reserved: ReservedCpus | None = Field(
        default=None,
        description="Which CPUs are reserved. Unset: what the kubelet reserves now, else one core per NUMA "
        "node.",
        examples=[{"cores_per_numa_node": 1}],
    )


class Memory(Section):
    """Memory that pods never get, and how it is spread over the NUMA nodes."""

    kube_reserved: ByteCount | None = Field(
        default=None,
        description="kubeReserved.memory: for the kubelet and the container runtime.",
        examples=["1Gi"],
    )
    system_reserved: ByteCount | None = Field(
        default=None,
        description="systemReserved.memory: for the operating system's daemons.",
        examples=["2Gi"],
    )
    eviction_hard: dict[EvictionSignal, EvictionThreshold] = Field(
        default_factory=dict,
        description="Hard eviction thresholds; the kubelet's default is kept for each signal that is not "
        "named.",
        examples=[{"memory.available": "1Gi", "nodefs.available": "10%"}],
    )
    split: Literal["proportional", "even"] | None = Field(
        default=None,
        description="How reservedMemory is divided among NUMA nodes: by their memory, or equally. "
        "Unset: proportional.",
        examples=["even"],
    )


class Hugepages(Section):
    """Pages of one size, said in exactly one of three ways."""

    size: HugepageSize = Field(description="The page's size as Kubernetes writes it.", examples=["1Gi"])
    count_per_numa_node: Count | None = Field(
        default=None, description="This many pages on each of the NUMA nodes.", examples=[16]
    )
    count: Count | None = Field(
        default=None,
        description="This many pages in total, spread evenly over the NUMA nodes.",
        examples=[64],
    )
    share: Share | None = Field(
        default=None,
        description="This share of each NUMA node's memory, rounded down to whole pages.",
        examples=["25%"],
    )
    numa_node: Count | None = Field(default=None, description="Only on this NUMA node.", examples=[0])
    numa_nodes: tuple[Count, ...] | None = Field(
        default=None,
        description="Only on these NUMA nodes. Unset: all NUMA nodes that have both CPUs and memory.",
        min_length=1,
        examples=[[0, 1]],
    )

    @model_validator(mode="after")
    def _one_amount_and_one_place(self) -> Self:
        amounts = [
            name for name in ("count_per_numa_node", "count", "share") if getattr(self, name) is not None
        ]
        if len(amounts) != 1:
            said = " and ".join(amounts) or "no amount"
            raise ValueError(f"says {said}; say exactly one of count_per_numa_node, count, share")
        if self.numa_node is not None and self.numa_nodes is not None:
            raise ValueError("says numa_node and numa_nodes; say one of them")
        return self


class Kubelet(Section):
    """Which resource managers run, and how. Unset: as the kubelet has it, else chosen by the machine."""

    version: VersionText | None = Field(
        default=None,
        description="The kubelet's version, for hosts on which none is installed yet; in quotes.",
        examples=["1.36"],
    )
    cpu_manager_policy: Literal["none", "static"] | None = Field(
        default=None,
        description="static gives whole CPUs to Guaranteed pods that ask for them.",
        examples=["static"],
    )
    cpu_manager_options: dict[str, OptionText] = Field(
        default_factory=dict,
        description="cpuManagerPolicyOptions, each checked against the kubelet's version. full-pcpus-only is "
        "on "
        "by default where every core has several threads.",
        examples=[{"distribute-cpus-across-numa": True}],
    )
    topology_manager_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] | None = Field(
        default=None,
        description="How strictly CPUs, memory and devices of a pod must be on the same NUMA nodes. Unset: "
        "single-numa-node on machines with several NUMA nodes, best-effort where a pod with all GPUs would "
        "not fit one of them.",
        examples=["restricted"],
    )
    topology_manager_scope: Literal["container", "pod"] | None = Field(
        default=None,
        description="Whether each container is aligned, or the pod as a whole.",
        examples=["pod"],
    )
    topology_manager_options: dict[str, OptionText] = Field(
        default_factory=dict,
        description="topologyManagerPolicyOptions, each checked against the kubelet's version. "
        "max-allowable-numa-nodes is set by itself on machines that need it.",
        examples=[{"prefer-closest-numa-nodes": True}],
    )
    memory_manager_policy: Literal["None", "Static"] | None = Field(
        default=None,
        description="Static gives memory and huge pages of Guaranteed pods NUMA nodes of their own. "
        "Unset: Static with restricted and single-numa-node, else None.",
        examples=["Static"],
    )
    on_conflict: Literal["refuse", "override"] = Field(
        default="refuse",
        description="What to do where the kubelet's own files say something else than this profile.",
        examples=["override"],
    )


class TransparentHugepages(Section):
    """The two switches below /sys/kernel/mm/transparent_hugepage."""

    enabled: Literal["always", "madvise", "never"] | None = Field(
        default=None, description="When the kernel uses huge pages by itself.", examples=["madvise"]
    )
    defrag: Literal["always", "defer", "defer+madvise", "madvise", "never"] | None = Field(
        default=None, description="When it stops to make room for them.", examples=["defer+madvise"]
    )


class Tuning(Section):
    """Kernel settings. Whatever is unset is left as the host has it."""

    governor: (
        Literal["performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"] | None
    ) = Field(default=None, description="Every CPU's cpufreq governor.", examples=["performance"])
    energy_preference: (
        Literal["default", "performance", "balance_performance", "balance_power", "power"] | None
    ) = Field(
        default=None,
        description="Every CPU's energy_performance_preference.",
        examples=["balance_performance"],
    )
    sysctls: dict[SysctlName, SysctlText] = Field(
        default_factory=dict, description="Kernel parameters by dotted name.", examples=[{"vm.swappiness": 1}]
    )
    transparent_hugepages: Annotated[TransparentHugepages | None, BeforeValidator(_thp)] = Field(
        default=None,
        description="Both switches, or a text for `enabled` alone.",
        examples=["madvise", {"enabled": "madvise", "defrag": "defer+madvise"}],
    )
    swap: Annotated[Literal["off", "keep"] | None, BeforeValidator(_swap)] = Field(
        default=None, description="off takes all swap away, now and at every boot.", examples=["off"]
    )
    numa_balancing: bool | None = Field(
        default=None,
        description="kernel.numa_balancing: whether the kernel moves pages after threads.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _numa_balancing_is_said_once(self) -> Self:
        if self.numa_balancing is not None and "kernel.numa_balancing" in self.sysctls:
            raise ValueError("says numa_balancing and sysctls kernel.numa_balancing; say one of them")
        return self


class NodeProfile(Section):
    """What an admin wants from a node; everything is optional."""

    name: str = Field(
        default="unnamed", description="The profile's name, which the plan carries.", examples=["h100-train"]
    )
    description: str = Field(
        default="", description="One sentence for people.", examples=["Whole-node training jobs"]
    )
    cpus: Cpus = Field(default=Cpus(), description="Reserved CPUs.")
    memory: Memory = Field(default=Memory(), description="Reserved memory.")
    hugepages: tuple[Hugepages, ...] = Field(
        default=(), description="Pools of huge pages, one entry per size and place."
    )
    kubelet: Kubelet = Field(default=Kubelet(), description="The kubelet's resource managers.")
    tuning: Tuning = Field(default=Tuning(), description="Kernel settings.")
    sources: dict[str, str] = Field(
        default_factory=dict,
        description="Where values come from, by dotted path; the plan's decisions show it.",
        examples=[{"tuning.sysctls.vm.swappiness": "ticket 4711"}],
    )

    def choice(self, path: str, said: str = "the profile's choice") -> str:
        """Return `said`, the reason for a value that this profile sets, with its source where it has one."""
        source = self.sources.get(path)
        return f"{said} ({source})" if source else said


def load_profile(source: str | Path | Mapping[str, Any], *, where: str | None = None) -> NodeProfile:
    """Return the profile that `source` names: a ready profile, a YAML file, or the mapping itself.

    `where` says where a name or a mapping was written, for errors. A profile that `extends` a ready one is
    merged over it: mappings key by key, everything else replaced. Raises ProfileError with every mistake.
    """
    place, document = _read(source, where)
    merged = _extend(document, place, ())
    merged.setdefault("name", _unnamed(source, document))
    return validated(NodeProfile, merged, place, also_known=("extends",), error=ProfileError)


def ready_profiles() -> tuple[str, ...]:
    """Return the names of the ready profiles, sorted."""
    return tuple(sorted(path.stem for path in _ready_folder().glob("*.yaml")))


def _ready_folder() -> Path:
    packaged = Path(__file__).parent / "profiles"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "profiles"


def _read(source: str | Path | Mapping[str, Any], where: str | None) -> tuple[str, dict[str, Any]]:
    if isinstance(source, Mapping):
        return where or "profile", dict(source)
    if isinstance(source, Path) or "/" in source or source.endswith((".yaml", ".yml")):
        return str(source), _read_file(Path(source), where)
    return _read_ready(source, where)


def _read_ready(name: str, where: str | None) -> tuple[str, dict[str, Any]]:
    if name not in ready_profiles():
        nearest = get_close_matches(name, ready_profiles(), n=1)
        raise ProfileError(
            f"there is no ready profile {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""),
            where=where,
            remedy=f"name one of {', '.join(ready_profiles())}, or the path of a YAML file",
        )
    path = _ready_folder() / f"{name}.yaml"
    return f"profile {name}", _read_file(path, where)


def _read_file(path: Path, where: str | None) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ProfileError(
            f"the profile {path} cannot be read: {error.strerror}",
            where=where,
            remedy=f"name a YAML file, or a ready profile: {', '.join(ready_profiles())}",
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProfileError(f"not valid YAML: {error}", where=str(path)) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ProfileError(
            f"a profile is a mapping, not a {type(document).__name__}",
            where=str(path),
            remedy="begin with a key such as `extends: training` or `cpus:`",
        )
    return document


class _StrictLoader(yaml.SafeLoader):
    """A SafeLoader that refuses a key that is written twice, where YAML would drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is written twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


def _extend(document: dict[str, Any], place: str, seen: tuple[str, ...]) -> dict[str, Any]:
    own = {key: value for key, value in document.items() if key != "extends"}
    parent = document.get("extends")
    if parent is None:
        return own
    if not isinstance(parent, str):
        raise ProfileError(
            f"{parent!r} is not a ready profile's name",
            where=f"{place}: extends",
            remedy=f"name one of {', '.join(ready_profiles())}",
        )
    if parent in seen:
        raise ProfileError(f"{' -> '.join((*seen, parent))} goes in a circle", where=f"{place}: extends")
    parent_place, parent_document = _read_ready(parent, f"{place}: extends")
    inherited = _extend(parent_document, parent_place, (*seen, parent))
    for personal in ("name", "description"):
        inherited.pop(personal, None)
    if isinstance(inherited.get("sources"), Mapping):
        inherited["sources"] = _sources_of_inherited(inherited["sources"], own)
    return _merge(inherited, own)


def _sources_of_inherited(sources: Mapping[str, str], own: Mapping[str, Any]) -> dict[str, str]:
    """Leave out the sources of values that are replaced: a source speaks of one value."""
    choices = [".".join(choice) + "." for choice in _CHOICES]
    paths = [f"{path}." for path, _ in leaves(own)]
    replaced = {next((choice for choice in choices if path.startswith(choice)), path) for path in paths}
    return {
        path: source
        for path, source in sources.items()
        if not any(f"{path}.".startswith(each) or each.startswith(f"{path}.") for each in replaced)
    }


def leaves(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of a profile by its dotted path; a list is one value."""
    for key, value in document.items():
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, here)
        else:
            yield here, value


def _merge(below: Mapping[str, Any], above: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        held, here = merged.get(key), (*path, key)
        if isinstance(held, Mapping) and isinstance(value, Mapping) and here not in _CHOICES:
            merged[key] = _merge(held, value, here)
        else:
            merged[key] = value
    return merged


def _unnamed(source: str | Path | Mapping[str, Any], document: Mapping[str, Any]) -> str:
    if not isinstance(source, Mapping):
        return Path(source).stem
    return f"{document['extends']}, adjusted" if document.get("extends") else "unnamed"
