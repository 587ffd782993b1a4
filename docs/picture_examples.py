"""Draw the pictures of the documentation again: `python -m docs.picture_examples`."""

from __future__ import annotations

from pathlib import Path

from docs.diagrams import diagrams
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.report.svg import draw
from tests.fixtures import machines

REPOSITORY = Path(__file__).parents[1]
IMAGES = REPOSITORY / "docs" / "images"

SMALL = {
    "extends": "inference-mig",
    "name": "lab",
    "memory": {"kube_reserved": "256Mi", "system_reserved": "256Mi"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 64}],
}


def examples() -> dict[str, str]:
    """Return each picture by its file's name."""
    training = load_profile("training")
    dgx, big = machines.dgx_h100(), machines.big_512()
    lab, instinct = machines.lab_node(), machines.mi300x()
    return {
        "two-cpus.svg": draw(machines.two_cpu_vm()),
        "lab-node.svg": draw(lab, plan_node(lab, load_profile(SMALL))),
        "dgx-h100.svg": draw(dgx, plan_node(dgx, training)),
        "hgx-a100.svg": draw(machines.hgx_a100()),
        "mi300x-cpx.svg": draw(instinct, plan_node(instinct, load_profile("mi300x-cpx"))),
        "gb200-tray.svg": draw(machines.gb200_nvl72_tray()),
        "nvlink-bridges.svg": draw(machines.nvlink_bridges()),
        "512-cpus.svg": draw(big, plan_node(big, training)),
        **diagrams(),
    }


if __name__ == "__main__":
    for name, picture in examples().items():
        (IMAGES / name).write_text(picture, encoding="utf-8")
        print(f"wrote docs/images/{name}")
