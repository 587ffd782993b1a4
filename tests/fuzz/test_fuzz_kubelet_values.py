"""Mutated scalars, YAML and JSON: each is read or refused with the parser's own error, at once."""

import os
import time
from random import Random

import pytest

from numaforge.kubelet_minors.values.gojson import GoJsonError, parse_json
from numaforge.kubelet_minors.values.goyaml import YamlError, read
from tests.fuzz import kubelet_inputs as inputs
from tests.oracle.readers import value

CASES = 1500 * int(os.environ.get("NUMAFORGE_FUZZ", "1"))
SEED = os.environ.get("NUMAFORGE_FUZZ_SEED", "1")
_SECONDS = 5
"""What no single text may take, of CPU."""


@pytest.mark.parametrize("reader", inputs.SCALARS)
def test_scalars_are_read_or_refused_within_a_time_limit(reader: str) -> None:
    random = Random(f"{reader}/{SEED}")  # noqa: S311
    for text in inputs.many(random, inputs.SCALARS[reader], CASES):
        began = time.process_time()
        value(reader, text)  # raises what is no ValueError
        assert time.process_time() - began < _SECONDS, text


def test_yaml_is_read_or_refused_within_a_time_limit() -> None:
    random = Random(f"yaml/{SEED}")  # noqa: S311
    refused = 0
    for text in inputs.many(random, inputs.yaml_text, CASES):
        began = time.process_time()
        try:
            read(text)
        except YamlError:
            refused += 1
        assert time.process_time() - began < _SECONDS, text
    assert 0 < refused < CASES


def test_json_is_parsed_or_refused() -> None:
    random = Random(f"json/{SEED}")  # noqa: S311
    refused = 0
    for text in inputs.many(random, inputs.json_text, CASES):
        try:
            parse_json(text)
        except GoJsonError:
            refused += 1
    assert 0 < refused < CASES
