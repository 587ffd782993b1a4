"""What a profile may say, and how a mistake in one is reported."""

from pathlib import Path

import pytest

from numaforge.lib.errors import ProfileError
from numaforge.lib.section import Section
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import leaves, load_profile, machine_profiles, ready_profiles
from tests.fixtures.profile_mistakes import BOOT_PARAMETERS, MISTAKES, NO_PARAMETERS, PARAMETERS
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

GIB = 2**30
DEFAULTS = [field.default for field in NodeProfile.model_fields.values()]


def refusal(source, where: str | None = None) -> str:
    with pytest.raises(ProfileError) as caught:
        load_profile(source, where=where)
    return str(caught.value)


def test_empty_profile_asks_for_nothing_and_is_frozen():
    profile = load_profile({})
    assert profile.cpus.reserved is None
    assert profile.kubelet.cpu_manager_policy is None
    assert profile.tuning.swap is None
    assert profile.maintenance.reboot == "never"
    with pytest.raises(ValueError, match="frozen"):
        profile.name = "other"


@pytest.mark.parametrize("section", [type(default) for default in DEFAULTS if isinstance(default, Section)])
def test_unset_section_equals_an_empty_mapping(section):
    assert section.unset() == section.model_validate({})


def test_profile_path_is_read_as_yaml(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("memory:\n  kube_reserved: 3Gi\ntuning:\n  swap: off\n")
    profile = load_profile(str(file))
    assert (profile.name, profile.memory.kube_reserved, profile.tuning.swap) == ("mine", 3 * GIB, "off")


def test_extends_merges_mappings_and_replaces_lists_and_choices():
    choice = {"reserved": {"cpulist": "0-1"}}
    pages = [{"size": "2Mi", "count": 1}]
    wish = {"memory": {"kube_reserved": "7Gi"}, "cpus": choice, "hugepages": pages}
    profile = load_profile({"extends": "training", **wish})
    assert profile.name == "training, adjusted"
    assert profile.memory.kube_reserved == 7 * GIB
    assert profile.memory.system_reserved == load_profile("training").memory.system_reserved
    assert [entry.size for entry in profile.hugepages] == ["2Mi"]
    assert (profile.cpus.reserved.cpulist, profile.cpus.reserved.cores_per_numa_node) == ("0-1", None)


@cases("taken, path", CASES["null_removes_inherited_values_and_their_sources"])
def test_null_removes_inherited_values_and_their_sources(taken, path):
    def sources(profile):
        return [source for source in profile.sources if source.startswith(path)]

    inherited, profile = load_profile("training"), load_profile({"extends": "training", **taken})
    assert sources(inherited)
    assert not sources(profile)
    said = dict(leaves(profile.model_dump(exclude_defaults=True)))
    assert not [setting for setting in said if setting.startswith(path)]


@pytest.mark.parametrize(("given", "normal"), [("1Gi", "1Gi"), ("1024Mi", "1Gi"), ("2048Ki", "2Mi")])
def test_hugepage_sizes_accept_kubernetes_form(given, normal):
    assert load_profile({"hugepages": [{"size": given, "count": 1}]}).hugepages[0].size == normal


def test_transparent_hugepages_accepts_a_single_word():
    switches = load_profile({"tuning": {"transparent_hugepages": "never"}}).tuning.transparent_hugepages
    assert (switches.enabled, switches.defrag) == ("never", None)


@pytest.mark.parametrize(("source", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistake_is_reported_with_field_and_remedy(source, message):
    assert message in refusal(source)


def test_mig_parted_file_is_read_from_the_profile_folder(tmp_path: Path):
    (tmp_path / "mig").mkdir()
    (tmp_path / "mig" / "config.yaml").write_text(
        "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: false}]\n"
    )
    file = tmp_path / "mine.yaml"
    file.write_text("mig:\n  mig_parted: mig/config.yaml\n")
    parted = load_profile(file).mig.mig_parted
    assert [*parted.mig_configs] == ["a"]


def test_invalid_mig_parted_yaml_is_refused_by_file_and_line(tmp_path: Path):
    (tmp_path / "config.yaml").write_text("version: v1\nversion: v1\n")
    file = tmp_path / "mine.yaml"
    file.write_text("mig:\n  mig_parted: config.yaml\n")
    message = refusal(file)
    assert message.startswith(f"{file}: mig.mig_parted: {tmp_path}/config.yaml, line 2: ")
    assert "the key 'version' is written twice" in message


@pytest.mark.parametrize("parameter", NO_PARAMETERS.values(), ids=NO_PARAMETERS)
def test_invalid_kernel_parameter_is_refused(parameter):
    message = refusal({"kernel": {"cmdline": ["quiet", parameter]}})
    assert message.startswith(
        f"profile: kernel.cmdline[1]: {parameter!r} is not a kernel parameter; write one"
    )


@pytest.mark.parametrize(("parameter", "reason"), BOOT_PARAMETERS.items(), ids=BOOT_PARAMETERS)
def test_boot_critical_parameter_is_refused_even_with_its_risk(parameter, reason):
    words = f"{parameter!r} is not for a profile: {reason}; leave it out"
    assert refusal({"kernel": {"cmdline": [parameter]}}) == f"profile: kernel.cmdline[0]: {words}"
    assert "is not for a profile" in refusal({"kernel": {"unsafe": {parameter: "it is known"}}})


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_kernel_parameter_is_kept_as_written(parameter):
    assert load_profile({"kernel": {"cmdline": [parameter]}}).kernel.cmdline == (parameter,)


UNSAFE_PARAMETERS = CASES["unsafe_parameters"]


@pytest.mark.parametrize(("parameter", "why"), UNSAFE_PARAMETERS.items(), ids=UNSAFE_PARAMETERS)
def test_unlisted_parameter_is_refused_with_both_remedies_and_accepted_with_its_risk(parameter, why):
    message = refusal({"kernel": {"cmdline": [parameter]}})
    assert message.startswith(f"profile: kernel.cmdline[0]: {parameter!r} {why}")
    remedy = "leave it out, or write it in kernel.unsafe with what it may cost: "
    assert message.endswith(f'{remedy}"{parameter}": "the risk, in your words"')
    accepted = load_profile({"kernel": {"unsafe": {parameter: " no  way in "}}}).kernel.unsafe
    assert accepted == {parameter: "no way in"}


@pytest.mark.parametrize("risk", ["", "  ", True, 3])
def test_unsafe_parameter_needs_its_risk_in_words(risk):
    message = refusal({"kernel": {"unsafe": {"fips=1": risk}}})
    assert message.startswith(f"profile: kernel.unsafe.fips=1: {risk!r} is not a risk; write what may happen")


def test_hugepages_parameter_is_refused_in_favour_of_its_section():
    assert refusal({"kernel": {"cmdline": ["hugepages=999999"]}}) == (
        "profile: kernel.cmdline[0]: 'hugepages=999999' is not accepted here; set it in the section "
        "hugepages with at: boot, which counts the machine's memory"
    )


DANGEROUS = CASES["dangerous"]
SAFE = CASES["safe"]


@pytest.mark.parametrize(("name", "value"), DANGEROUS)
def test_dangerous_sysctl_needs_its_risk(name, value):
    message = refusal({"tuning": {"sysctls": {name: value}}})
    assert message.startswith(f"profile: tuning: sysctls {name}: {value} is dangerous: ")
    assert message.endswith(f'"{name}": "the risk, in your words"')
    assert load_profile({"tuning": {"sysctls": {name: value}, "unsafe": {name: "known"}}})


@pytest.mark.parametrize(("name", "value"), SAFE)
def test_harmless_sysctl_needs_no_risk(name, value):
    assert load_profile({"tuning": {"sysctls": {name: value}}}).tuning.sysctls == {name: str(value)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel.modules_disabled", 1),
        ("kernel.kexec_load_disabled", 1),
        ("vm.drop_caches", 3),
        ("vm.nr_hugepages", 100),
        ("vm.nr_hug*", 100),
    ],
)
def test_irreversible_sysctl_is_refused_even_with_its_risk(name, value):
    wish = {"sysctls": {name: value}, "unsafe": {name: "known"}}
    assert f"sysctls {name}: {value} is not for a profile: " in refusal({"tuning": wish})


def test_all_mistakes_are_listed():
    message = refusal({"memory": {"kube_reserved": "8GB"}, "tunning": {}})
    assert message.startswith("profile: 2 mistakes:")
    assert "\n  memory.kube_reserved: '8GB'" in message
    assert "\n  tunning: unknown key; did you mean tuning?" in message


def test_message_starts_with_the_place():
    assert refusal({"cpus": 3}, where="group_data/gpu.py").startswith("group_data/gpu.py: cpus: ")


@pytest.mark.parametrize("name", [*ready_profiles(), *machine_profiles()])
def test_every_value_of_a_ready_profile_has_a_source(name):
    profile = load_profile(name)
    values = profile.model_dump(exclude_unset=True, exclude={"name", "description", "sources"})
    assert {*profile.sources} == {path for path, _ in leaves(values)}


def test_replaced_value_or_choice_loses_its_source():
    tuning, cpus = {"sysctls": {"vm.swappiness": 1}}, {"reserved": {"cores": 4}}
    sources = load_profile({"extends": "training", "tuning": tuning, "cpus": cpus}).sources
    assert "tuning.sysctls.vm.swappiness" not in sources
    assert "tuning.sysctls.vm.zone_reclaim_mode" in sources
    assert not [path for path in sources if path.startswith("cpus.")]


def test_new_value_and_its_source_are_set_together():
    profile = load_profile(
        {"extends": "training", "tuning": {"swap": "keep"}, "sources": {"tuning.swap": "ticket 4711"}}
    )
    assert profile.choice("tuning.swap") == "the profile's choice (ticket 4711)"


def test_unknown_ready_profile_suggests_the_nearest():
    message = refusal("trainig")
    assert "there is no ready profile 'trainig'; did you mean 'training'?" in message
    assert "inference-mig" in message
    assert "for a kind of machine dgx-h100, epyc-nps1" in message
    assert "did you mean 'dgx-h100'?" in refusal("dgx-h10")
    assert refusal({"extends": "nothing-like-it"}).startswith("profile: extends: there is no ready profile")


def test_missing_file_is_named(tmp_path: Path):
    assert f"the profile {tmp_path}/no.yaml cannot be read: No such file" in refusal(f"{tmp_path}/no.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpus: [", "not valid YAML"),
        ("- cpus", "a profile is a mapping, not a list"),
        ("memory: {}\nmemory: {}\n", "the key 'memory' is written twice"),
    ],
    ids=["broken", "a-list", "duplicate-key"],
)
def test_damaged_file_is_refused(tmp_path: Path, text, message):
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    assert message in refusal(file)


# ---- profiles that extend a file ----


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a profile of one's own, which extends a ready one and names a file of mig-parted."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base/own.yaml").write_text("extends: training\nname: own\nmemory: {system_reserved: 8Gi}\n")
    return tmp_path


@pytest.mark.parametrize("named", ["./base/own.yaml", "base/own.yaml"])
def test_profile_extends_a_file_in_its_folder(own: Path, named: str) -> None:
    (own / "node.yaml").write_text(f"extends: {named}\nmemory: {{kube_reserved: 2Gi}}\n")
    found = load_profile(own / "node.yaml")
    expected = load_profile(
        {"extends": "training", "memory": {"system_reserved": "8Gi", "kube_reserved": "2Gi"}}
    )
    assert found.model_dump(exclude={"name"}) == expected.model_dump(exclude={"name"})
    assert found.name == "node"


def test_paths_in_an_extended_file_are_relative_to_that_file(own: Path) -> None:
    entry = "{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}"
    (own / "base/mig.yaml").write_text(f"version: v1\nmig-configs: {{all: [{entry}]}}\n")
    (own / "base/cut.yaml").write_text("mig: {mig_parted: mig.yaml, config: all}\n")
    (own / "node.yaml").write_text("extends: base/cut.yaml\n")
    above, below = (load_profile(own / name).mig.mig_parted for name in ("node.yaml", "base/cut.yaml"))
    assert above == below


def test_circular_or_missing_extends_is_refused(own: Path) -> None:
    (own / "a.yaml").write_text("extends: base/b.yaml\n")
    (own / "base/b.yaml").write_text("extends: ../a.yaml\n")
    assert "../a.yaml goes in a circle" in refusal(own / "a.yaml")
    (own / "a.yaml").write_text("extends: ./nope.yaml\n")
    message = refusal(own / "a.yaml")
    assert "a.yaml: extends: the profile " in message
    assert "nope.yaml cannot be read" in message


def test_json_profile_is_accepted(own: Path) -> None:
    (own / "h.json").write_text('{"extends": "training"}')
    assert load_profile(str(own / "h.json")).name == "h"
