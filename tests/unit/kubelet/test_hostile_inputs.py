"""Text that fuzzing found for a kubelet: each has its own verdict, or a limit that is named."""

# ruff: noqa: E501 (tables)
import time
from pathlib import Path
from typing import Any

import pytest

from numaforge.commands.inputs import read_drop_ins
from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.flags import parse_flags
from numaforge.kubelet_minors.values.cpusets import CpuSetError, parse_cpuset
from numaforge.kubelet_minors.values.goyaml import YamlError, read
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.quantity import Quantity, QuantityError
from tests.fixtures.tables import cases
from tests.oracle.machines import KINDS, described, topology
from tests.oracle.raw import MANAGED

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n"
STATIC = '{"policyName":"static","defaultCpuSet":"0-15","entries":{},"checksum":0}'
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def error(config: str = HEAD, **given: Any) -> str:
    report = check(config, topology=topology(described(KINDS["small"])), version="1.36", **given)
    return report.error or ""


def json(members: str) -> str:
    return (
        '{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": false, '
        f"{members}}}"
    )


@cases(
"config, reason", {
"a template that was not rendered": (f"{HEAD}authentication: {{{{ auth }}}}\n", 'yaml: invalid map key: map[interface {}]interface {}{"auth":interface {}(nil)}'),
"30,000 open brackets": (f"{HEAD}a: {'[' * 30000}", "exceeded max depth of 900"),
"500 brackets for a quantity": (f"{HEAD}reservedMemory: [{{numaNode: 0, limits: {{memory: {'[' * 500}{']' * 500}}}}}]\n", "quantities must match"),
"and for a duration": (f"{HEAD}logging: {{flushFrequency: {'[' * 500}{']' * 500}}}\n", "invalid duration"),
"5,000 digits in JSON": (json(f'"maxPods": {"1" * 5000}'), "cannot unmarshal number 1111"),
"an alias bomb": (f"{HEAD}{BOMB}", "document contains excessive aliasing"),
"an alias of itself": (f"{HEAD}a: &x [*x]\n", "anchor 'x' value contains itself"),
"a merge of itself": (f"{HEAD}a: &x {{<<: *x}}\n", "anchor 'x' value contains itself"),
"a null key": (f"{HEAD}~: x\n", "unsupported map key of type: %!s(<nil>)"),
"a tag with nothing behind it": (f"{HEAD}x: !!int\n", "cannot decode !!null `` as a !!int"),
"a tag that lies": (f"{HEAD}x: !!float x\n", "cannot decode !!str `x` as a !!float"),
"no base64": (f"{HEAD}x: !!binary '%'\n", "contains invalid base64 data"),
"what JSON has no number for": (f"{HEAD}x: .nan\n", "json: unsupported value: NaN"),
"a suffix alone": (f"{HEAD}kubeReserved: {{memory: Ei}}\n", "unable to parse numeric"),
"a huge exponent": (f"{HEAD}kubeReserved: {{memory: 1e999999999}}\n", "the exponent is beyond 10000"),
"a huge range of CPUs": (f"{HEAD}reservedSystemCPUs: 0-99999999999\n", "has more than 1048576 CPUs"),
"4,400 digits": (f"{HEAD}kubeReserved: {{memory: 1e4400}}\n", "has a reservation of"),
"an open bracket": (f"{HEAD}tracing: {{endpoint: 'dns://[::1'}}\n", "missing ']' in host"),
"0s is no empty text": (f"{HEAD}topologyManagerPolicy: 0s\n", "topologyManagerPolicy"),
"a duration with two signs": (f"{HEAD}syncFrequency: -+1s\n", "time: invalid duration"),
"a float in JSON": (json('"maxPods": 110.0'), "number 110.0 into Go struct field"),
"the first of two keys": (json('"maxPods": "x", "maxPods": 1'), "cannot unmarshal string"),
"kind in another case": (json('"KIND": "x"'), 'no kind "x" is registered'),
"100,000 open brackets alone": ("[" * 100000, "exceeded max depth of 900"),
"100,000 open braces in JSON": ('{"a":' * 100000, "exceeded max depth"),
})  # fmt: skip
def test_refused(config: str, reason: str) -> None:
    began = time.monotonic()
    assert reason in error(config)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(f"{HEAD}a: {'[' * 500}{']' * 500}\n", id="500 brackets that are closed"),
        pytest.param(f"{HEAD}a: &x 1\nb: &x 2\nc: *x\n", id="an anchor defined twice"),
        pytest.param(f"{HEAD}'<<': x\n", id="a quoted merge key"),
        pytest.param(f"{HEAD}providerID: !,!str '5'\n", id="a tag with a comma before its second mark"),
        pytest.param(f"{HEAD}providerID: 2025-02-30\n", id="a date that does not exist"),
        pytest.param(f"{HEAD}tracing: {{endpoint: 'dns://a]:1'}}\n", id="an endpoint with a closed bracket"),
        pytest.param(f"{HEAD}evictionHard: {{memory.available: 1_0%}}\n", id="an underscore in a share"),
        pytest.param(f"{HEAD}evictionHard: {{memory.available: 0x1p-2%}}\n", id="a share in hexadecimal"),
        pytest.param(f"{HEAD}evictionHard: {{memory.available: nan%}}\n", id="a share that is no number"),
        pytest.param(json('"providerID": "\\ud83d\\ude00 \x7f"'), id="a surrogate pair and DEL in JSON"),
        pytest.param("\t" + json('"maxPods": 1'), id="JSON behind a tab"),
        pytest.param(json(f'"a": {"[" * 5000}{"]" * 5000}'), id="5,000 brackets in JSON"),
    ],
)
def test_odd_but_valid_configuration_is_accepted(config: str) -> None:
    assert error(config) == ""


@pytest.mark.parametrize(("version", "webhook"), [("1.31", True), ("1.32", False)])
def test_null_deep_in_a_drop_in_deletes_nothing_up_to_1_31(version: str, webhook: bool) -> None:
    kept = check(
        f"{HEAD}authentication: {{webhook: {{cacheTTL: 5s}}}}\n",
        topology=topology(described(KINDS["small"])),
        version=version,
        drop_ins={"10-a.conf": f"{HEAD}authentication: {{webhook: null}}\n"},
    ).effective["authentication"]["webhook"]
    assert (kept["cacheTTL"] == "5s") == webhook


def test_minus_zero_is_a_number_but_no_unsigned_one() -> None:
    assert error(json('"maxPods": -0, "kubeAPIQPS": -0')) == error(json('"maxPods": 0, "kubeAPIQPS": 0'))
    assert "cannot unmarshal number -0" in error(json('"logging": {"verbosity": -0}'))


def test_deeply_nested_drop_in_is_accepted() -> None:
    deep = f"{HEAD}a: {'{a: ' * 300}1{'}' * 300}\n"
    assert error(drop_ins={"10-a.conf": deep}) == ""


@cases(
    "flags, reason",
    {
        "an alpha option": (["--log-json-split-stream=true"], "LoggingAlphaOptions is disabled"),
        "a buffer": (["--log-text-info-buffer-size=1Mi"], "LoggingAlphaOptions is disabled"),
        "two slashes in a label": (["--node-labels=a/b/c=d"], "a valid label key must consist"),
        "a point for a dash": (["--max.pods=5"], "unknown flag: --max.pods"),
        "a quote within a list": (['--cluster-dns=a"b'], 'bare " in non-quoted-field'),
        "an open quote": (['--cluster-dns="a'], 'extraneous or missing " in quoted-field'),
        "an address with a zone": (["--address=fe80::1%eth0"], "is not a valid IP address"),
        "an address with leading zeros is one": (["--address=01.2.3.4"], ""),
        "a second line of a list is not read": (["--cluster-dns=a\nb"], ""),
        "5,000 digits": (["--v", "9" * 5000], "value out of range"),
    },
)
def test_flag_values_are_judged_as_by_the_kubelet(flags: list[str], reason: str) -> None:
    said = error(flags=flags)
    assert reason in said if reason else said == ""


def test_short_flags_may_be_combined() -> None:
    flags = parse_flags(["-hv4"], KubeletVersion.parse("1.36"))
    assert flags.settings == {"logging.verbosity": 4}
    assert flags.outside_config == {"h": True}


def test_structured_flags_appear_in_the_effective_settings() -> None:
    report = check(
        HEAD,
        topology=topology(described(KINDS["small"])),
        version="1.36",
        flags=["--vmodule=a=1", "--manifest-url-header=x:y"],
    )
    assert report.effective["logging"]["vmodule"] == [{"filePattern": "a", "verbosity": 1}]
    assert report.effective["staticPodURLHeader"] == {"x": ["y"]}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("memory_manager_state", '{"policyName":"Static","machineState":{"--5":{}}}', "number --5"),
        ("memory_manager_state", '{"policyName":"Static","machineState":{"9223372036854775808":{}}}', "number 9223"),
        ("memory_manager_state", '{"policyName":"Static","machineState":{"0":null,"1":null}}', "expected machine"),
        ("cpu_manager_state", '{"policyName":"static","entries":{"p":null}}', "default cpuset cannot be empty"),
        ("cpu_manager_state", '{"policyName":"\\x"}', "in string escape code"),
        ("cpu_manager_state", '{"policyName":"\\ud800"}', "differs from state checkpoint policy \"\ufffd\""),
        ("cpu_manager_state", "[" * 100000, "exceeded max depth"),
        ("cpu_manager_state", '{"policyName":"static","defaultCpuSet":"0-99999999999"}', "more than 1048576 CPUs"),
    ],
)  # fmt: skip
def test_malformed_state_file_is_refused(name: str, text: str, reason: str) -> None:
    files = {"cpu_manager_state": STATIC, name: text}
    assert reason in error(MANAGED, state_files=files)


@pytest.mark.parametrize(
    ("text", "shown", "whole"),
    [
        pytest.param("512Ei", "9223372036854775807", 2**63 - 1, id="binary notation ends at 2^63-1"),
        pytest.param("0.1n", "1n", 1, id="less than 1n is 1n"),
        pytest.param("-1m", "-1m", -1, id="below zero a part counts whole"),
        pytest.param("1.5Gi", "1536Mi", 1536 << 20, id="a part of a binary unit"),
        pytest.param("1e4400", "100e4398", 0, id="beyond an int64 the value is 0"),
    ],
)
def test_extreme_quantities_are_rounded_as_by_kubernetes(text: str, shown: str, whole: int) -> None:
    assert (str(Quantity.parse(text)), Quantity.parse(text).ceiling()) == (shown, whole)


@pytest.mark.parametrize("text", ["\u0663", "1e10001", "1" * 10001, "Ei", "e-10"])
def test_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


def test_cpu_range_beyond_any_kernel_is_refused() -> None:
    with pytest.raises(CpuSetError, match="more than 1048576 CPUs"):
        parse_cpuset("0-20000000")


def test_deep_nesting_is_refused_before_a_stack_overflow() -> None:
    with pytest.raises(YamlError, match="exceeded max depth"):
        read("[" * 1_000_000)


def test_only_conf_files_of_the_drop_in_folder_are_read(tmp_path: Path) -> None:
    tmp_path.joinpath("10-a.conf").write_text(HEAD)
    tmp_path.joinpath("notes.bin").write_bytes(b"\xff\xfe")
    assert read_drop_ins(str(tmp_path)) == {"10-a.conf": HEAD, "notes.bin": ""}
