"""What becomes of another tool's file: a profile that loads and plans, and a note for what it cannot say."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab.paths import REPOSITORY
from numaforge.cli import run
from numaforge.kubelet_minors.fields import ROOT_TYPE
from numaforge.kubelet_minors.tables import FIELDS
from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.errors import NumaforgeError
from numaforge.machine.topology.read import read_topology
from numaforge.planning.convert.forms import FORMS, convert
from numaforge.planning.convert.kubelet_configuration import KUBELET_ROWS
from numaforge.planning.convert.rows import Fate, FieldRow, read
from numaforge.planning.convert.yaml_text import as_yaml
from numaforge.planning.json_schema import json_schema
from numaforge.planning.profiles import load_profile, ready_profiles
from tests.fixtures.plans import planned, refusal
from tests.fixtures.tables import cases, tables
from tests.machines.files import stored

SAMPLES = REPOSITORY / "tests" / "fixtures" / "convert"
CHOSEN = {"mig-parted.yaml": "seven", "eksctl.yaml": "a100"}
KIND_OF = {
    "aks.json": "aks",
    "bottlerocket.toml": "eks",
    "ec2nodeclass.yaml": "karpenter",
    "gke.yaml": "gke",
    "grub": "grub",
    "k3s.yaml": "k3s",
    "kubeadmconfigtemplate.yaml": "cluster-api",
    "kubespray.yaml": "kubespray",
    "mig-parted.yaml": "mig-parted",
    "sysctl.conf": "sysctl",
    "talos.yaml": "talos",
    **dict.fromkeys(("eksctl.yaml", "nodeconfig.mime", "nodeconfig.yaml"), "eks"),
    **dict.fromkeys(("kubelet.yaml", "kubeletconfig.yaml"), "kubeletconfiguration"),
    **dict.fromkeys(("performanceprofile.yaml", "performanceprofile-v1alpha1.yaml"), "performanceprofile"),
    **dict.fromkeys(("tuned.conf", "tuned.yaml"), "tuned"),
}
EVERY_SAMPLE = pytest.mark.parametrize("sample", sorted(KIND_OF))
DGX = stored("nvidia-dgx-h100")


def text_of(sample: str) -> str:
    return (SAMPLES / sample).read_text(encoding="utf-8")


def converted(sample: str, kind: str = "auto"):
    return convert(text_of(sample), sample, kind, CHOSEN.get(sample))


def performance(**spec: Any) -> str:
    """Return a PerformanceProfile with these sections beside its CPUs."""
    cpu = {"reserved": "0,112", "isolated": "1-111,113-223"}
    body = {"cpu": cpu, "nodeSelector": {"gpu": ""}, **spec}
    head = {"apiVersion": "performance.openshift.io/v2", "kind": "PerformanceProfile"}
    return yaml.safe_dump({**head, "metadata": {"name": "performance"}, "spec": body})


def kubelet(**fields: Any) -> str:
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return yaml.safe_dump({**head, **fields})


def value_at(document: Any, path: str | None) -> Any:
    """Return what a profile says at a path whose last name may hold dots; all of it without one."""
    while path:
        name = next((key for key in document if path == key or path.startswith(f"{key}.")), None)
        if name is None:
            return None
        document, path = document[name], path[len(name) + 1 :]
    return document


def all_rows() -> list[FieldRow]:
    return [row for form in FORMS for row in (*form.rows, *form.extra[1])]


# What comes out


def test_every_sample_is_listed():
    assert sorted(path.name for path in SAMPLES.iterdir()) == sorted(KIND_OF)


@EVERY_SAMPLE
def test_sample_of_a_detected_kind_becomes_a_file_whose_values_name_their_fields(sample, tmp_path):
    made = converted(sample)
    assert made == converted(sample, KIND_OF[sample])
    file = tmp_path / "profile.yaml"
    file.write_text(as_yaml(made, sample), encoding="utf-8")
    assert yaml.safe_load(file.read_text()) == made.profile
    assert load_profile(file) == load_profile({"name": "profile", **made.profile})
    assert [key for key in made.origins if value_at(made.profile, key) is None] == []
    assert {key.partition(".")[0] for key in made.origins} == set(made.profile)


@EVERY_SAMPLE
def test_converted_profile_plans_on_a_machine_that_fits(sample):
    chosen = planned(read_topology(DGX.snapshot()), "1.34.4", **converted(sample).profile)
    said = value_at(converted(sample).profile, "cpus.reserved.cpulist")
    assert chosen.cpus.reserved
    assert said is None or chosen.cpus.reserved == parse_cpulist(said)


def test_converted_profile_is_refused_on_a_machine_that_does_not_fit():
    machine = read_topology(stored("nvidia-hgx-a100").snapshot())
    message = refusal(machine, "1.34.4", **converted("performanceprofile.yaml").profile)
    assert any(words in message for words in ("cuts cores in two", "does not have", "not online"))


@pytest.mark.parametrize("ready", ready_profiles())
@pytest.mark.parametrize("kind", ["nvidia-dgx-h100", "epyc-9654-nps4", "nvidia-gh200"])
def test_planned_kubelet_converts_to_a_profile_with_the_same_plan(kind, ready):
    machine = read_topology(stored(kind).snapshot())
    settings = plain(planned(machine, "1.34.4", extends=ready).kubelet.settings)
    made = convert(kubelet(**settings), "kubelet.yaml")
    assert plain(planned(machine, "1.34.4", **made.profile).kubelet.settings) == settings


def plain(value: Any) -> Any:
    """Return mappings and lists as YAML has them."""
    if isinstance(value, Mapping):
        return {key: plain(held) for key, held in value.items()}
    return [plain(held) for held in value] if isinstance(value, (list, tuple)) else value


CASES = {
    name: {
        rule: (file if isinstance(file, str) else yaml.safe_dump(file), *rest)
        for rule, (file, *rest) in cases.items()
    }
    for name, cases in tables(__file__).items()
}
BECOMES = CASES["becomes"]


@pytest.mark.parametrize(("text", "key", "value"), BECOMES.values(), ids=list(BECOMES))
def test_field_becomes_a_key(text, key, value):
    assert value_at(convert(text, "file").profile, key) == value


def test_offline_cpus_and_nic_queues_become_numaforge_settings():
    cpu = {"reserved": "0,112", "isolated": "1-55,113-167", "offlined": "56-111,168-223"}
    profile = convert(performance(cpu=cpu, net={"userLevelNetworking": True}), "file").profile
    assert profile["cpus"]["offline"] == "56-111,168-223"
    assert profile["nic_queues"] == {"combined": "reserved"}
    load_profile(profile)


@cases("text, field, fate", CASES["noted"])
def test_field_a_profile_cannot_express_is_noted(text, field, fate):
    assert (field, fate) in {(note.field, note.fate) for note in convert(text, "file").notes}


def test_default_values_are_not_noted():
    usual = {"realTimeKernel": {"enabled": False}, "globallyDisableIrqLoadBalancing": False}
    text = performance(**usual, kernelPageSize="4k")
    assert convert(text, "file").notes == convert(performance(), "file").notes


def test_parts_ignored_by_the_kubelet_refuse_nothing():
    parts = [{"numaNode": 0, "limits": {"memory": "1Gi"}}]
    text = kubelet(memoryManagerPolicy="None", kubeReserved={"memory": "1Gi"}, reservedMemory=parts)
    assert convert(text, "file").profile["kubelet"] == {"memory_manager_policy": "None"}


def test_sum_is_not_judged_where_a_platform_adds_reservations():
    memory = {"memory-manager-policy": "Static", "memory-manager-reserved-memory": {"0": {"memory": "993Mi"}}}
    notes = convert(yaml.safe_dump({"settings": {"kubernetes": memory}}), "file").notes
    assert not [note for note in notes if "adds up to" in note.text]


# What is refused


@cases("text, said", CASES["refused"])
def test_file_is_refused_with_the_field_name(text, said):
    with pytest.raises(NumaforgeError) as refused:
        convert(text, "file")
    assert said in str(refused.value)
    assert str(refused.value).startswith("file")


def test_file_of_another_type_is_refused():
    with pytest.raises(NumaforgeError, match="is not a TuneD profile or an OpenShift Tuned"):
        convert(performance(), "file", "tuned")


def test_name_option_applies_only_to_files_with_several_profiles():
    with pytest.raises(NumaforgeError, match="--name does not apply"):
        convert(performance(), "file", name="performance")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 300)
    | st.sampled_from(["", "0-3", "1Gi", "static", "a\nb", "${x}"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["memory", "name", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def changed(document: Any, value: Any, choose: Any) -> Any:
    """Return a document with one value somewhere in it replaced."""
    if isinstance(document, dict) and document and choose(st.booleans()):
        key = choose(st.sampled_from(sorted(document, key=str)))
        return {**document, key: changed(document[key], value, choose)}
    if isinstance(document, list) and document and choose(st.booleans()):
        return [changed(document[0], value, choose), *document[1:]]
    return value


@given(data=st.data(), sample=st.sampled_from(sorted(name for name in KIND_OF if name.endswith(".yaml"))))
def test_changed_sample_is_converted_or_refused(data, sample):
    document = yaml.safe_load(text_of(sample))
    text = yaml.safe_dump(changed(document, data.draw(VALUES), data.draw))
    try:
        made = convert(text, sample, KIND_OF[sample], CHOSEN.get(sample))
    except NumaforgeError:
        return
    assert yaml.safe_load(as_yaml(made, sample)) in (made.profile, None)
    assert load_profile({"name": "x", **made.profile})


# The tables


def properties(schema: dict[str, Any], path: str = "spec") -> list[str]:
    """Return the path of every field of a CustomResourceDefinition that holds no others."""
    fields = schema.get("properties") or schema.get("items", {}).get("properties")
    if not fields:
        return [path]
    each = f"{path}[]" if "items" in schema else path
    return [leaf for name, below in fields.items() for leaf in properties(below, f"{each}.{name}")]


CRDS = REPOSITORY.parent / "shared" / "crds"


@pytest.mark.parametrize("name", ["performanceprofiles", "kubeletconfigs", "tuneds"])
def test_every_field_of_a_custom_resource_has_a_row(name):
    file = CRDS / f"openshift-{name}.yaml"
    if not file.is_file():
        pytest.skip(f"{file} is not here")
    definition = yaml.safe_load(file.read_text())
    kind = definition["spec"]["names"]["kind"]
    [rows] = [form.rows for form in FORMS if form.has({"kind": kind})]
    known = {row.field for row in rows}
    for version in definition["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for field in properties(spec):
            ends = [end for end in range(len(field) + 1) if field[end : end + 1] in ("", ".", "[")]
            above = {field[:end] for end in ends}
            below = [one for one in known if one.startswith(f"{field}.")]
            assert known & above or below, field


def test_every_kubelet_field_has_a_row():
    fields = {name.removeprefix(f"{ROOT_TYPE}.") for name in FIELDS if name.startswith(f"{ROOT_TYPE}.")}
    assert fields == {row.path()[0] for row in KUBELET_ROWS}


def keys_of_a_profile() -> set[str]:
    schema = json_schema("profile")

    def below(part: Any, path: str) -> set[str]:
        found = {path}
        options = (part, *part.get("anyOf", ()))
        for option in [each for one in options for each in (one, one.get("items", {}))]:
            held = schema["$defs"][option["$ref"].rpartition("/")[2]] if "$ref" in option else option
            for name, value in held.get("properties", {}).items():
                found |= below(value, f"{path}.{name}".removeprefix("."))
        return found

    return below(schema, "")


def test_every_row_key_is_a_profile_key():
    said = {row.key.replace("[]", "") for row in all_rows() if row.key}
    free = ("tuning.sysctls.", "mig.mig_parted.")
    assert {key for key in said - keys_of_a_profile() if not key.startswith(free)} == set()


def test_field_has_exactly_one_row_and_an_unconverted_one_its_reason():
    for form in FORMS:
        fields = [row.field for row in form.rows]
        assert len(fields) == len(set(fields))
    assert [row.field for row in all_rows() if row.fate is not Fate.BECOMES and not row.why] == []


def test_null_counts_as_left_out():
    assert read({"cpuManagerPolicy": None}, KUBELET_ROWS).fields == ()


# The command


def test_standard_input_is_read(monkeypatch, capsys):
    with (SAMPLES / "gke.yaml").open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert run(["convert", "-"]) == 0
    head = "# Converted by numaforge from a node system configuration of GKE: standard input"
    assert capsys.readouterr().out.startswith(head)


def test_json_output_has_profile_and_notes(capsys):
    assert run(["convert", "gke", str(SAMPLES / "gke.yaml"), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["profile"]["kubelet"]["topology_manager_policy"] == "single-numa-node"
    assert document["origins"]["kubelet.topology_manager_policy"] == "kubeletConfig.topologyManager.policy"
    assert {"field", "fate", "key", "text"} == set(document["notes"][0])


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_output_file_is_written(tmp_path, capsys, output):
    file = tmp_path / "out"
    assert run(["convert", str(SAMPLES / "gke.yaml"), "--to", str(file), "-o", output]) == 0
    assert capsys.readouterr().out == ""
    assert yaml.safe_load(file.read_text())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"\x00\x01", "line 1: is not a text: it holds U+0000", id="binary"),
        pytest.param(b"\xff\xfe", "is not UTF-8 text", id="no UTF-8"),
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"kind: Pod\n", "kind 'Pod'", id="another kind"),
    ],
)
def test_bad_input_gives_one_message(tmp_path, capsys, content, said):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert run(["convert", str(file)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert "fault" not in captured.err


@pytest.mark.parametrize("words", [["helm", "file"], ["gke", "a", "b"], ["gke", str(Path("/nonexistent"))]])
def test_bad_arguments_are_refused(capsys, words):
    assert run(["convert", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err
