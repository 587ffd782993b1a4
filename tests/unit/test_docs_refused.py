"""docs/refused.md shows real refusals: each profile on the page is planned, and its message compared."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from numaforge.lib.errors import NumaforgeError
from numaforge.machine.topology.model import Cpufreq, NodeTopology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import (
    KUBEADM_CONFIG,
    big_512,
    dgx_h100,
    grace_blackwell_tray,
    kubeadm_kubelet,
    lab_node,
)

PAGE = Path(__file__).parents[2] / "docs" / "refused.md"
BLOCK = re.compile(r"^```(?P<info>[^\n]+)\n(?P<body>.*?)\n```$", re.DOTALL | re.MULTILINE)


def pstate_node() -> NodeTopology:
    """Return the lab node with an Intel CPU's frequency driver."""
    cpus = range(16)
    cpufreq = Cpufreq(
        "intel_pstate",
        dict.fromkeys(cpus, "powersave"),
        ("performance", "powersave"),
        dict.fromkeys(cpus, "balance_performance"),
        ("performance", "balance_performance"),
    )
    return replace(lab_node(), cpufreq=cpufreq)


def vmemmap_node() -> NodeTopology:
    """Return the lab node with a running kubelet and a kernel that takes page structs back."""
    kubelet = replace(kubeadm_kubelet(), running=True)
    return replace(lab_node(), sysctls={"vm.hugetlb_optimize_vmemmap": "1"}, kubelet=kubelet)


MACHINES = {
    "big_512": big_512,
    "dgx_h100": dgx_h100,
    "grace_blackwell_tray": grace_blackwell_tray,
    "pstate_node": pstate_node,
    "vmemmap_node": vmemmap_node,
}


def message(
    profile: dict[str, Any],
    *,
    machine: str | None = None,
    version: str | None = None,
    kubelet: str = "",
    flags: tuple[str, ...] = (),
) -> str:
    topology = MACHINES[machine]() if machine else lab_node()
    install = kubeadm_kubelet(config_text=KUBEADM_CONFIG + kubelet)
    running = topology.kubelet is not None and topology.kubelet.running
    install = replace(install, flags=(*install.flags, *flags), running=running)
    topology = replace(topology, kubelet=install)
    with pytest.raises(NumaforgeError) as caught:
        plan_node(topology, load_profile(profile), version)
    return str(caught.value)


def examples() -> Iterator[Any]:
    """Yield the arguments and the message of each example, named by its heading."""
    for section in re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        blocks = {match["info"].split()[1]: match for match in BLOCK.finditer(section)}
        attributes = dict(item.split("=") for item in blocks["refusal"]["info"].split()[2:])
        kubelet = blocks["kubelet"]["body"] + "\n" if "kubelet" in blocks else ""
        flags = tuple(blocks["flags"]["body"].split()) if "flags" in blocks else ()
        arguments = {**attributes, "kubelet": kubelet, "flags": flags}
        profile = yaml.safe_load(blocks["profile"]["body"])
        heading = section.partition("\n")[0].lower().replace(" ", "-")
        yield pytest.param(profile, arguments, blocks["refusal"]["body"], id=heading)


@pytest.mark.parametrize(("profile", "arguments", "expected"), list(examples()))
def test_page_shows_the_real_message(profile, arguments, expected):
    assert message(profile, **arguments) == expected
