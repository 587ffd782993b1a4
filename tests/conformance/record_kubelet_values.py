"""Record what Go makes of a few hundred texts: `python -m tests.conformance.record_kubelet_values`.

Needs Go, as `make test-all PART=oracle` does.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

from lab.oracle import MINORS, Oracle
from tests.fuzz import kubelet_inputs as inputs

FOUND = Path(__file__).parents[1] / "fuzz/corpus/kubelet_yaml"
"""Texts on which we and Go once differed."""

FILE = Path(__file__).with_name("kubelet_values.json")
_SCALARS = 40
_YAML_TEXTS = 200
_LONGEST = 400


def main() -> None:
    """Write the file."""
    recorded = []
    with Oracle(MINORS[-1]) as oracle:
        for reader in (*inputs.SCALARS, "yaml", "strict yaml"):
            texts = _texts(reader)
            answer = oracle.ask([{"texts": [{"reader": reader, "text": text} for text in texts]}])[0]
            recorded += [
                {"reader": reader, "text": text, **value}
                for text, value in zip(texts, answer["values"], strict=True)
            ]
    lines = ",\n".join(json.dumps(each) for each in recorded)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _texts(reader: str) -> list[str]:
    random = Random(f"recorded/{reader}")  # noqa: S311
    generator = inputs.SCALARS.get(reader, inputs.yaml_text)
    count = _SCALARS if reader in inputs.SCALARS else _YAML_TEXTS
    if reader not in inputs.SCALARS:
        found = [file.read_bytes().decode() for file in sorted(FOUND.glob("*.yaml"))]
        return found + _generated(random, generator, count)
    return _generated(random, generator, count)


def _generated(random: Random, generator: Callable[[Random], str], count: int) -> list[str]:
    texts = dict.fromkeys(inputs.many(random, generator, 4 * count))
    return [text for text in texts if len(text) < _LONGEST and not text.startswith(("[", "{"))][:count]


if __name__ == "__main__":
    main()
