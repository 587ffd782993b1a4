"""What depends only on the kind of a machine is computed once for all machines of that kind."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import replace
from functools import wraps
from hashlib import blake2b
from typing import Concatenate, ParamSpec, TypeVar
from weakref import finalize

from numaforge.topology.model import (
    Gpu,
    GpuInstance,
    HugepagePool,
    KubeletInstall,
    NodeTopology,
    NumaNode,
    PeerMemory,
)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_KEPT = 256  # answers of each function; a fleet has fewer kinds than that, or gains nothing here


def once_per_kind(function: Callable[P, R]) -> Callable[P, R]:
    """Make a pure function of plain data remember what it returned for equal arguments.

    They are compared by a digest of their whole content. What it returns is shared: nothing may change it. An
    error is raised anew each time.
    """
    answers: OrderedDict[bytes, R] = OrderedDict()

    @wraps(function)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> R:
        content = pickle.dumps((args, sorted(kwargs.items())), pickle.HIGHEST_PROTOCOL)
        key = blake2b(content, digest_size=32).digest()
        if key in answers:
            answers.move_to_end(key)
            return answers[key]
        answer = function(*args, **kwargs)
        answers[key] = answer
        if len(answers) > _KEPT:
            answers.popitem(last=False)
        return answer

    return remembering


def once_per_object(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Make a pure function remember what it returned for its first argument itself, as long as that lives.

    The other arguments are compared by value. What it returns is shared: nothing may change it. It must not
    hold the argument, which would live for ever then.
    """
    answers: dict[int, dict[Hashable, R]] = {}

    @wraps(function)
    def remembering(thing: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        place = id(thing)
        if place not in answers:
            answers[place] = {}
            finalize(thing, answers.pop, place).atexit = False
        known, key = answers[place], (args, *kwargs.items())
        if key not in known:
            known[key] = function(thing, *args, **kwargs)
        return known[key]

    return remembering


def kind_of(machine: NodeTopology, sysctls: Collection[str] = ()) -> NodeTopology:
    """Return the machine without what tells it from others of its kind, and what changes by itself.

    That is its name, its networks and its userland, its GPUs' identities, health and users, what its kernel
    was started with, what NCCL is told, what is free, the state files of its kubelet, which file the kubelet
    is, the values of all sysctls but those named, and
    what its kernel had before numaforge.
    """
    return replace(
        machine,
        hostname=None,
        kernel_cmdline=None,
        sysctls={name: value if name in sysctls else "" for name, value in machine.sysctls.items()},
        gpus=tuple(map(_gpu_kind, machine.gpus)),
        gpu_processes={},
        nvidia_install=None,
        userland=None,
        pci_functions=(),
        peer_memory=PeerMemory(),
        device_holders=None,
        holders_doubt=None,
        networks=(),
        nccl_conf=None,
        numa_nodes=tuple(_without_free_pages(node) for node in machine.numa_nodes),
        hugepages={size: _full(pool) for size, pool in machine.hugepages.items()},
        kubelet=_kubelet_kind(machine.kubelet),
        previous_plan=_plan_kind(machine),
        kernel_values_record=None,
        kernel_values=dict.fromkeys(machine.kernel_values, ""),
        switchable=None,
    )


def _gpu_kind(gpu: Gpu) -> Gpu:
    """Model, place, MIG mode and where instances lie make the kind; who uses the GPU does not.

    A GPU at rest lowers its link by itself, and numbers of /dev/nvidiaN follow the order of an earlier probe.
    """
    return replace(
        gpu,
        uuid=None,
        fabric=None,
        xgmi_hive=None,
        fabric_state=None,
        minor=None,
        pids=(),
        mig_devices=(),
        gpu_instances=gpu.gpu_instances and tuple(map(_instance_kind, gpu.gpu_instances)),
        link=None,
        driver_link=None,
        persistence=None,
        ecc=None,
        remapped_rows=None,
        recovery_action=None,
        bar1_bytes=None,
    )


def _instance_kind(instance: GpuInstance) -> GpuInstance:
    computes = tuple(replace(one, uuid=None) for one in instance.compute_instances)
    return replace(instance, compute_instances=computes, pids=())


def _without_free_pages(node: NumaNode) -> NumaNode:
    return replace(node, hugepages={size: _full(pool) for size, pool in node.hugepages.items()})


def _full(pool: HugepagePool) -> HugepagePool:
    return HugepagePool(pool.total, pool.total)


def _kubelet_kind(install: KubeletInstall | None) -> KubeletInstall | None:
    """Without a version the file is what a message names."""
    return install and replace(install, binary=None if install.version else install.binary, state_files={})


def _plan_kind(machine: NodeTopology) -> str | None:
    """Return the earlier plan's text with this machine's own identity blotted out, its length kept."""
    text = machine.previous_plan
    identities = [
        ("hostname", machine.hostname),
        ("binary", machine.kubelet and machine.kubelet.binary),
        *(("uuid", gpu.uuid) for gpu in machine.gpus),
    ]
    for key, identity in identities:
        if text and identity:
            text = text.replace(f'"{key}": "{identity}"', f'"{key}": "{"x" * len(identity)}"')
    return text
