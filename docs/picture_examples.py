"""Draw the pictures of the documentation again: `python docs/picture_examples.py`."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))

from docs.diagrams import diagrams  # noqa: E402
from numaforge.planning.node import plan_node  # noqa: E402
from numaforge.profile import load_profile  # noqa: E402
from numaforge.report.svg import draw  # noqa: E402
from tests.fixtures import machines  # noqa: E402

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
    lab = machines.lab_node()
    return {
        "two-cpus.svg": draw(machines.two_cpu_vm()),
        "lab-node.svg": draw(lab, plan_node(lab, load_profile(SMALL))),
        "dgx-h100.svg": draw(dgx, plan_node(dgx, training)),
        "hgx-a100.svg": draw(machines.hgx_a100()),
        "gb200-tray.svg": draw(machines.gb200_nvl72_tray()),
        "nvlink-bridges.svg": draw(machines.nvlink_bridges()),
        "512-cpus.svg": draw(big, plan_node(big, training)),
        **diagrams(),
    }


if __name__ == "__main__":
    for name, picture in examples().items():
        (IMAGES / name).write_text(picture, encoding="utf-8")
        print(f"wrote docs/images/{name}")
