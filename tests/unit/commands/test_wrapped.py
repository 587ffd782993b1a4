"""A plugin's configuration is found in what deploys it, and what deploys it is checked, too."""

from collections.abc import Mapping
from textwrap import indent
from typing import Any

import pytest

from numaforge.cli import run
from numaforge.commands.wrapped import read_wrapped
from numaforge.lib.errors import ExitCode, NumaforgeError

ONE = "version: v1\nflags: {}"
OTHER = "version: v1"


POLICY = "kind: ClusterPolicy\nspec: {devicePlugin: {config: {name: plugin, default: a}}}\n"
NODE = "kind: Node\nmetadata: {name: gpu-7, labels: {nvidia.com/device-plugin.config: c}}\n"


def is_configuration(document: Mapping[str, Any]) -> bool:
    return "version" in document or "configList" in document


def config_map(name: str, **data: str) -> str:
    texts = "".join(f"  {key}: {value!a}\n" for key, value in data.items())
    return f"kind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n{texts}"


def chart(default: str) -> str:
    return f"devicePlugin:\n  config:\n    default: {default}\n    data: {{a: {ONE!a}}}\n".replace("'", '"')


@pytest.mark.parametrize(
    ("text", "key", "inner", "place"),
    [
        pytest.param(ONE, None, ONE, "", id="the configuration itself"),
        pytest.param("no: wrapper", None, "no: wrapper", "", id="what is none is left to its reader"),
        pytest.param("a: b: c", None, "a: b: c", "", id="what is not YAML is, too"),
        pytest.param(
            config_map("m", a=ONE.replace("\n", " # "), readme="text"), None, ..., ": a", id="a ConfigMap"
        ),
        pytest.param(config_map("m", a=OTHER, b=OTHER), "b", OTHER, ": b", id="one of several, by its key"),
        pytest.param(
            f"{config_map('m', a=OTHER)}---\n{config_map('n', a=OTHER)}",
            "n/a",
            OTHER,
            ": n/a",
            id="equal keys of several ConfigMaps, by their names",
        ),
        pytest.param(
            f"kind: List\nitems:\n- kind: Service\n- kind: ConfigMap\n  data: {{a: '{OTHER}'}}",
            None,
            OTHER,
            ": a",
            id="in a List",
        ),
        pytest.param(chart("a"), None, ..., ": a", id="a chart's values"),
        pytest.param(f"parent:\n{indent(chart('a'), '  ')}", None, ..., ": a", id="a subchart's values"),
        pytest.param(
            f"kind: HelmRelease\nspec:\n  values:\n{indent(chart('a'), '    ')}",
            None,
            ...,
            ": a",
            id="Flux' values",
        ),
        pytest.param(
            f"kind: Application\nspec:\n source:\n  helm:\n   values: |\n{indent(chart('a'), '    ')}",
            None,
            ...,
            ": a",
            id="Argo CD's values",
        ),
        pytest.param(
            f"kind: HelmChart\nspec:\n  valuesContent: |\n{indent(chart('a'), '    ')}",
            None,
            ...,
            ": a",
            id="values of k3s and RKE2",
        ),
        pytest.param(
            f"kind: ConfigMapList\nitems:\n- data: {{a: '{OTHER}'}}",
            None,
            OTHER,
            ": a",
            id="in a list of a kind",
        ),
        pytest.param(f"kind: Namespace\n---\n{OTHER}", None, '{"version": "v1"}', "", id="beside others"),
        pytest.param(
            f"{POLICY}---\n{config_map('plugin', a=OTHER)}",
            None,
            OTHER,
            ": a",
            id="what a ClusterPolicy names",
        ),
        pytest.param(
            f"spec: {{rdmaSharedDevicePlugin: {{config: '{OTHER}'}}}}",
            None,
            OTHER,
            ": spec.rdmaSharedDevicePlugin.config",
            id="a NicClusterPolicy",
        ),
        pytest.param(
            "rdmaSharedDevicePlugin: {resources: [{name: a, ifNames: [ens3]}]}",
            None,
            '{"configList": [{"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"ifNames": ["ens3"]}}]}',
            ": rdmaSharedDevicePlugin.resources",
            id="pools of the network operator's chart",
        ),
    ],
)
def test_configuration_is_found_inside_its_wrapper(tmp_path, text, key, inner, place):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    found, where = read_wrapped(str(path), key, is_configuration)
    assert where == f"{path}{place}"
    assert found == inner if isinstance(inner, str) else found.startswith("version: v1")


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        pytest.param(config_map("m", a=OTHER, b=OTHER), None, "name one: --key a or --key b", id="several"),
        pytest.param(config_map("m", a=OTHER), "b", "it has a", id="another key"),
        pytest.param(config_map("m", a="text"), "a", "leave --key out", id="a key where there is none"),
        pytest.param(chart("b"), None, "default: 'b' is not one of the configurations: a", id="a default"),
        pytest.param(
            f"{POLICY}---\n{config_map('plugin', b=OTHER)}",
            None,
            "spec.devicePlugin.config.default: 'a' is not one of the configurations: b",
            id="a default of a ClusterPolicy",
        ),
        pytest.param(
            f"{POLICY}---\n{config_map('plugin', a=OTHER)}---\n{NODE}",
            None,
            "nvidia.com/device-plugin.config of gpu-7: 'c' is not one of the configurations: a",
            id="the label of a Node",
        ),
        pytest.param(
            "migManager: {config: {default: b, data: {config.yaml: 'mig-configs: {a: []}'}}}",
            None,
            "default: 'b' is not one of the configurations: a",
            id="a default of MIG Manager is in its text",
        ),
        pytest.param(POLICY, None, "names the ConfigMap plugin", id="a ClusterPolicy alone"),
        pytest.param(
            config_map("m", a="a: ["), None, "a, line 2: not valid YAML", id="a text that is not YAML"
        ),
        pytest.param(
            "spec: {sriovDevicePlugin: {config: '{\"resourceList\": []}'}}",
            None,
            "SR-IOV",
            id="the configuration of another plugin",
        ),
        pytest.param("{apiVersion: v1, kind: Pod}", None, "it has the kind Pod", id="another kind"),
        pytest.param(
            "{nfd: {}, driver: {}}", None, "it has the keys nfd, driver", id="a chart's values without one"
        ),
    ],
)
def test_wrapper_without_a_definite_configuration_is_refused(tmp_path, text, key, message):
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(NumaforgeError, match=message):
        read_wrapped(str(path), key, is_configuration)


@pytest.mark.parametrize(
    ("name", "text", "whose"),
    [
        ("gke", "linuxConfig: {}\n", "a node system configuration of GKE: `numaforge convert FILE`"),
        ("sriov", '{"resourceList": []}\n', "the SR-IOV network device plugin: it alone reads"),
        ("policy", "kind: SriovNetworkNodePolicy\n", "the SR-IOV network operator: it alone reads"),
    ],
    ids=["settings of a node", "pools of another plugin", "a policy of another operator"],
)
@pytest.mark.parametrize("command", ["kubelet check", "mig check", "device-plugin check", "rdma check"])
def test_file_of_another_tool_is_identified(tmp_path, capsys, command, name, text, whose):
    file = tmp_path / f"{name}.yaml"
    file.write_text(text, encoding="utf-8")
    machine = ["--machine", "dgx-h100"] if command in ("kubelet check", "device-plugin check") else []
    assert run([*command.split(), str(file), *machine]) == ExitCode.BAD_INPUT
    assert whose in capsys.readouterr().err
