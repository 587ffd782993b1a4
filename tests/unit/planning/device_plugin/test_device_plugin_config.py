"""The device plugin's file: each mistake is refused, in the plugin's own words where it has some."""

from dataclasses import replace

import pytest

from numaforge.findings import Severity
from numaforge.kubelet.admission.inventory import Shared
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import MigProfileOffer, NodeTopology, NvidiaDriver, NvidiaInstall
from numaforge.machine.topology.vendors import NOT_LISTED
from numaforge.roles.device_plugin.advertised import advertised, as_listed
from numaforge.roles.device_plugin.checks import check_answers, check_config, check_machine
from numaforge.roles.device_plugin.config import parse_device_plugin
from tests.fixtures.machines import cut_into
from tests.fixtures.tables import tables

CASES = tables(__file__)

CREATING = "error starting plugins: error getting plugins: unable to create plugins: "
DEVICE_MAP = (
    f"{CREATING}failed to construct resource managers: error building device map: "
    "error building device map from config.resources: "
)
EACH_MIG_DEVICE = (
    "error visiting devices: error visiting device: error visiting device: error visiting MIG device: "
    "error visiting MIG device: "
)
TWO_TYPES = (
    f"{DEVICE_MAP}invalid MIG configuration: {EACH_MIG_DEVICE}more than one MIG device type present on node"
)


def time_slicing(*resources: str, more: str = "") -> str:
    return f"sharing: {{timeSlicing: {{{more}resources: [{', '.join(resources)}]}}}}"


def mps(*resources: str, flags: str = "mpsRoot: /run/nvidia/mps") -> str:
    return f"flags: {{{flags}}}\nsharing: {{mps: {{resources: [{', '.join(resources)}]}}}}"


# The texts after the field are those of k8s-device-plugin: api/config/v1 (replicas.go, resources.go, imex.go,
# config.go, strategy.go) and validateFlags in cmd/nvidia-device-plugin/main.go.
@pytest.mark.parametrize(("text", "field", "said"), CASES["refused"].values(), ids=CASES["refused"])
def test_plugin_refusal_is_reported_in_the_words_of_the_plugin(text, field, said):
    with pytest.raises(PlanError) as refused:
        parse_device_plugin(text, "plugin.yaml")
    assert str(refused.value).startswith(f"plugin.yaml: {field}: {said}")


def test_name_of_63_characters_is_accepted():
    name = f"nvidia.com/{'x' * 52}"
    config = parse_device_plugin(time_slicing(f"{{name: {name}, replicas: 2}}"), "plugin.yaml")
    assert [*config.sharing.taken.replicas] == [name]


@pytest.mark.parametrize(
    ("text", "said"), CASES["accepted_by_the_plugin"].values(), ids=CASES["accepted_by_the_plugin"]
)
def test_config_the_plugin_silently_accepts_is_refused(text, said):
    with pytest.raises(PlanError, match=said.replace("?", r"\?")):
        parse_device_plugin(text, "plugin.yaml")


def test_every_documented_key_is_read():
    config = parse_device_plugin(CASES["every_key"], "plugin.yaml")
    assert config.flags.plugin.device_list_strategy == ("envvar", "cdi-cri")
    replicas = {"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb.me": 2}
    assert config.sharing.taken == Shared(replicas, renamed=True, one_per_request=True)
    assert check_config(config) == ()


@pytest.mark.parametrize(("text", "found"), CASES["wrong_everywhere"].values(), ids=CASES["wrong_everywhere"])
def test_faults_independent_of_the_machine_are_found(text, found):
    assert [[one.id, one.text] for one in check_config(parse_device_plugin(text, "plugin.yaml"))] == found


SEVEN = ("1g.10gb",) * 7


@pytest.mark.parametrize(
    ("text", "gpus", "found"), CASES["wrong_on_a_machine"].values(), ids=CASES["wrong_on_a_machine"]
)
def test_faults_on_a_given_machine_are_found_with_a_remedy(text, gpus, found):
    findings = check_machine(parse_device_plugin(text, "plugin.yaml"), cut_into(*gpus))
    assert [[str(one.severity), one.text] for one in findings] == found
    assert all(one.remedy for one in findings)


def test_gpu_with_unknown_mig_devices_is_reported_as_uncounted():
    machine = cut_into(SEVEN, None)
    machine = replace(machine, gpus=(replace(machine.gpus[0], gpu_instances=None), machine.gpus[1]))
    config = parse_device_plugin("flags: {migStrategy: mixed}", "plugin.yaml")
    assert [one.id for one in check_machine(config, machine)] == ["mig-devices-unknown"]


def test_only_what_ends_the_plugin_is_an_error():
    text = mps("{name: gpu, replicas: 49, rename: a}", flags="migStrategy: mixed")
    findings = check_config(parse_device_plugin(text, "plugin.yaml"))
    errors = [one.id for one in findings if one.severity is Severity.ERROR]
    assert errors == ["mps-with-mixed", "mps-replicas"]


STRATEGIES = ("none", "single", "mixed")
CHANNEL = "error starting plugins: error getting plugins: error querying IMEX channels: "


def with_second(machine: NodeTopology, **changes: object) -> NodeTopology:
    """Return a machine whose driver runs, with its second GPU changed."""
    first, second, *others = machine.gpus
    return replace(
        machine, gpus=(first, replace(second, **changes), *others), nvidia=NvidiaDriver("580.95.05")
    )


def lines(text: str, machine: NodeTopology) -> list[tuple[str, str | None]]:
    return [(one.id, one.text) for one in check_answers(parse_device_plugin(text, "plugin.yaml"), machine)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_lost_gpu_ends_the_plugin_with_every_strategy(strategy):
    lost = with_second(cut_into(None, None, None), index=1, mig_mode=None, unanswered="GPU is lost")
    begins = (
        "error starting plugins: unable to add default resources to config: error visiting devices: "
        if strategy == "mixed"
        else f"{DEVICE_MAP}error building GPU device map: "
    )
    line = f"{begins}error getting device handle for index '1': GPU is lost"
    assert lines(f"flags: {{migStrategy: {strategy}}}", lost) == [("gpu-lost", line)]


@pytest.mark.parametrize(
    ("changes", "driver"),
    [
        pytest.param({"unanswered": "GPU requires reset", "name": "NVIDIA H100"}, None, id="it has its name"),
        pytest.param({"unanswered": "Driver Not Loaded"}, "Driver Not Loaded", id="no driver runs"),
        pytest.param({"unanswered": NOT_LISTED}, None, id="NVML does not count it"),
    ],
)
def test_gpu_that_does_not_stop_the_plugin_is_not_reported_lost(changes, driver):
    machine = with_second(cut_into(None, None), **changes)
    machine = replace(machine, nvidia=NvidiaDriver("580.95.05", error=driver))
    assert lines("flags: {migStrategy: none}", machine) == []


def test_gpu_not_counted_by_the_driver_is_not_advertised():
    machine = with_second(cut_into(None, None, None), unanswered=NOT_LISTED)
    config = parse_device_plugin("flags: {migStrategy: none}", "plugin.yaml")
    assert advertised(config, as_listed(machine)) == {"nvidia.com/gpu": 2}


@pytest.mark.parametrize(
    ("second", "found"),
    [
        pytest.param({}, [], id="of one model"),
        pytest.param({"device": "20b2"}, [TWO_TYPES], id="an A100 beside an H100"),
        pytest.param(
            {"mig_profiles": (MigProfileOffer(6, "1g.10gb", 1, 7, 9 * 2**30, 1),)},
            [],
            id="of which one tells no memory",
        ),
    ],
)
def test_strategy_single_compares_more_than_mig_device_names(second, found):
    machine = with_second(cut_into(SEVEN, SEVEN), **second)
    config = parse_device_plugin("flags: {migStrategy: single}", "plugin.yaml")
    assert [one.text for one in check_machine(config, machine)] == found


CHANNELS = {
    "it is there": ("channelIDs: [0], required: true", True, []),
    "it is not there": (
        "channelIDs: [0], required: true",
        False,
        [("imex-channel-missing", f"{CHANNEL}requested IMEX channel channel0 does not exist")],
    ),
    "not captured": ("channelIDs: [0], required: true", None, [("imex-channel-unknown", None)]),
    "not required": ("channelIDs: [0]", False, []),
    "none is asked for": ("required: true", False, []),
}


@pytest.mark.parametrize(("text", "channel", "found"), CHANNELS.values(), ids=CHANNELS)
def test_required_imex_channel_must_exist(text, channel, found):
    machine = replace(cut_into(None), nvidia_install=NvidiaInstall(imex_channel=channel))
    assert lines(f"imex: {{{text}}}", machine) == found


def test_key_case_is_ignored_and_the_last_repeated_key_counts() -> None:
    text = "flags: {migstrategy: single}\nflags: {migstrategy: mixed, FailOnInitError: true}"
    config = parse_device_plugin(text, "config.yaml")
    assert (config.flags.mig_strategy, config.flags.fail_on_init_error) == ("mixed", True)
