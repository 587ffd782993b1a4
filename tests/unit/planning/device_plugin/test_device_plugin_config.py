"""The device plugin's file: each mistake is refused, in the plugin's own words where it has some."""

from __future__ import annotations

from dataclasses import replace

import pytest

from numaforge.errors import PlanError
from numaforge.findings import Severity
from numaforge.kubelet.admission.inventory import Shared
from numaforge.roles.device_plugin.advertised import advertised, as_listed
from numaforge.roles.device_plugin.checks import check_answers, check_config, check_machine
from numaforge.roles.device_plugin.config import parse_device_plugin
from numaforge.topology.model import MigProfileOffer, NodeTopology, NvidiaDriver, NvidiaInstall
from numaforge.topology.vendors import NOT_LISTED
from tests.fixtures.machines import cut_into

WHOLE = (None, None)
NOT_YET = "is not yet supported in the config. Ignoring..."
DAEMONS = "error starting plugins: error getting daemons: invalid MPS configuration: "
FLAGS = "error starting plugins: unable to validate flags: "
CREATING = "error starting plugins: error getting plugins: unable to create plugins: "
DEVICE_MAP = (
    f"{CREATING}failed to construct resource managers: error building device map: "
    "error building device map from config.resources: "
)
EACH_MIG_DEVICE = (
    "error visiting devices: error visiting device: error visiting device: error visiting MIG device: "
    "error visiting MIG device: "
)
NO_RESOURCE = f"{DEVICE_MAP}error building MIG device map: {EACH_MIG_DEVICE}"
TWO_TYPES = (
    f"{DEVICE_MAP}invalid MIG configuration: {EACH_MIG_DEVICE}more than one MIG device type present on node"
)
NOT_CONFIGURED = (
    f"{DEVICE_MAP}invalid MIG configuration: at least one device with migEnabled=true was not configured "
    "correctly: error visiting device"
)


def time_slicing(*resources: str, more: str = "") -> str:
    return f"sharing: {{timeSlicing: {{{more}resources: [{', '.join(resources)}]}}}}"


def mps(*resources: str, flags: str = "mpsRoot: /run/nvidia/mps") -> str:
    return f"flags: {{{flags}}}\nsharing: {{mps: {{resources: [{', '.join(resources)}]}}}}"


# The texts after the field are those of k8s-device-plugin: api/config/v1 (replicas.go, resources.go, imex.go,
# config.go, strategy.go) and validateFlags in cmd/nvidia-device-plugin/main.go.
@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        pytest.param("version: v2", "version", "unknown version: v2", id="another version"),
        pytest.param(
            "flags: {migStrategy: all}",
            "flags.migStrategy",
            "unknown MIG strategy: all",
            id="no such strategy",
        ),
        pytest.param(
            "sharing: {timeSlicing: {}}",
            "sharing.timeSlicing",
            "no resources specified",
            id="nothing is shared",
        ),
        pytest.param(
            "sharing: {timeSlicing: null}", "sharing", "no resources specified", id="time-slicing is null"
        ),
        pytest.param(time_slicing(), "sharing.timeSlicing", "no resources specified", id="an empty list"),
        pytest.param(
            time_slicing("{replicas: 2}"),
            "sharing.timeSlicing.resources[0]",
            "no resource name specified",
            id="no name",
        ),
        pytest.param(
            time_slicing("{name: gpu}"),
            "sharing.timeSlicing.resources[0]",
            "no replicas specified",
            id="no replicas",
        ),
        pytest.param(
            mps("{name: gpu, replicas: 1}"),
            "sharing.mps.resources[0].replicas",
            "number of replicas must be >= 2",
            id="one replica",
        ),
        pytest.param(
            time_slicing(
                "{name: nvidia.com/mig-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, replicas: 2}"
            ),
            "sharing.timeSlicing.resources[0].name",
            "fully-qualified resource name must be 63 characters or less: nvidia.com/mig-x",
            id="a name of 64 characters",
        ),
        pytest.param(
            time_slicing("{name: amd.com/gpu, replicas: 2}"),
            "sharing.timeSlicing.resources[0].name",
            "incorrect format for resource name 'nvidia.com/amd.com/gpu'",
            id="another vendor's prefix is put behind NVIDIA's",
        ),
        pytest.param(
            time_slicing(f"{{name: gpu, replicas: {2**63}}}"),
            "sharing.timeSlicing.resources[0].replicas",
            "cannot unmarshal a number of more than 64 bits into Go value of type int",
            id="replicas that are no int",
        ),
        pytest.param(
            time_slicing("{name: gpu, replicas: 2, devices: some}"),
            "sharing.timeSlicing.resources[0].devices",
            "devices set as 'some' but the only valid string input is 'all'",
            id="devices that are no word of the plugin's",
        ),
        pytest.param(
            time_slicing("{name: gpu, replicas: 2, devices: 0}"),
            "sharing.timeSlicing.resources[0].devices",
            "devices set as '0' but a count of devices must be > 0",
            id="no devices",
        ),
        pytest.param(
            time_slicing("{name: gpu, replicas: 2, devices: [GPU-1]}"),
            "sharing.timeSlicing.resources[0].devices",
            "unsupported type for device in devices list: GPU-1",
            id="a device that is neither index nor UUID",
        ),
        pytest.param(
            time_slicing("{name: gpu, replicas: 2, devices: {}}"),
            "sharing.timeSlicing.resources[0].devices",
            "unrecognized type for devices spec",
            id="devices that are a mapping",
        ),
        pytest.param(
            "resources: {gpus: [{name: gpu}]}",
            "resources.gpus[0]",
            "resources must have a 'pattern' field set",
            id="a name without a pattern",
        ),
        pytest.param(
            "resources: {mig: [{pattern: 1g*}]}",
            "resources.mig[0]",
            "resources must have a 'name' field set",
            id="a pattern without a name",
        ),
        pytest.param(
            "imex: {channelIDs: [0, 1]}",
            "imex.channelIDs",
            "invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [0 1]",
            id="another IMEX channel than 0",
        ),
        pytest.param(
            "flags: {plugin: {deviceListStrategy: [envvar, cdi]}}",
            "flags.plugin.deviceListStrategy",
            "invalid --device-list-strategy option: invalid strategy: cdi",
            id="no such way to pass devices",
        ),
        pytest.param(
            "flags: {plugin: {deviceIDStrategy: name}}",
            "flags.plugin.deviceIDStrategy",
            "invalid --device-id-strategy option: name",
            id="no such way to name devices",
        ),
        pytest.param(
            "flags: {plugin: {sharedDevicesAllocationPolicy: spread}}",
            "flags.plugin.sharedDevicesAllocationPolicy",
            "invalid --shared-devices-allocation-policy option: spread",
            id="no such allocation policy",
        ),
        pytest.param(
            "flags: {deviceDiscoveryStrategy: sysfs}",
            "flags.deviceDiscoveryStrategy",
            "invalid --device-discovery-strategy option sysfs",
            id="no such discovery",
        ),
    ],
)
def test_what_the_plugin_refuses_is_refused_in_its_words(text, field, said):
    with pytest.raises(PlanError) as refused:
        parse_device_plugin(text, "plugin.yaml")
    assert str(refused.value).startswith(f"plugin.yaml: {field}: {said}")


def test_a_name_of_63_characters_is_accepted():
    name = f"nvidia.com/{'x' * 52}"
    config = parse_device_plugin(time_slicing(f"{{name: {name}, replicas: 2}}"), "plugin.yaml")
    assert [*config.sharing.taken.replicas] == [name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "flags: {migStrategie: none}", "did you mean migStrategy?", id="the nearest key is named"
        ),
        pytest.param(
            "flags: {plugin: {nvidiaCtkPath: /usr/bin/nvidia-ctk}}",
            "did you mean nvidiaCTKPath?",
            id="capitals count",
        ),
        pytest.param("sharing: {vgpu: {}}", "known here: timeSlicing, mps", id="else the known ones"),
        pytest.param(
            "flags: {failOnInitError: 'yes'}", "is neither true nor false", id="a text for a switch"
        ),
        pytest.param("flags: {}\nflags: {}", "written twice", id="a key that is written twice"),
        pytest.param(
            time_slicing("{name: gpu, replicas: 2}", "{name: nvidia.com/gpu, replicas: 4}"),
            "nvidia.com/gpu is shared twice",
            id="a resource that is shared twice, once without its prefix",
        ),
        pytest.param("kind: ConfigMap\ndata: {}", "is a ConfigMap", id="the ConfigMap instead of its text"),
        pytest.param("[]", "not a configuration of the device plugin", id="no mapping"),
    ],
)
def test_what_the_plugin_accepts_without_a_word_is_refused(text, said):
    with pytest.raises(PlanError, match=said.replace("?", r"\?")):
        parse_device_plugin(text, "plugin.yaml")


def test_every_documented_key_is_read():
    config = parse_device_plugin(
        """
version: v1
flags:
  migStrategy: mixed
  failOnInitError: true
  mpsRoot: ""
  nvidiaDriverRoot: /
  nvidiaDevRoot: /
  gdrcopyEnabled: false
  gdsEnabled: false
  mofedEnabled: false
  useNodeFeatureAPI: true
  deviceDiscoveryStrategy: auto
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [envvar, cdi-cri]
    deviceIDStrategy: uuid
    cdiAnnotationPrefix: cdi.k8s.io/
    nvidiaCTKPath: /usr/bin/nvidia-ctk
    containerDriverRoot: /driver-root
    sharedDevicesAllocationPolicy: packed
  gfd: {oneshot: false, noTimestamp: true, sleepInterval: 60s, outputFile: /x, machineTypeFile: /y}
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: true
    resources: [{name: nvidia.com/gpu, replicas: 4}, {name: mig-1g.10gb.me, replicas: 2}]
imex: {channelIDs: [0], required: true}
""",
        "plugin.yaml",
    )
    assert config.flags.plugin.device_list_strategy == ("envvar", "cdi-cri")
    replicas = {"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb.me": 2}
    assert config.sharing.taken == Shared(replicas, renamed=True, one_per_request=True)
    assert check_config(config) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "resources: {gpus: [{pattern: '*', name: gpu}]}",
            [
                (
                    "resources-ignored",
                    "Customizing the 'resources' field is not yet supported in the config. Ignoring...",
                )
            ],
            id="names by pattern are ignored",
        ),
        pytest.param(
            time_slicing("{name: gpu, replicas: 2, rename: gpu.slice}"),
            [
                (
                    "rename-ignored",
                    f"Setting the 'rename' field in sharing.timeSlicing.resources {NOT_YET}",
                )
            ],
            id="rename is ignored",
        ),
        pytest.param(
            time_slicing("{name: gpu, replicas: 2, rename: gpu.shared}", more="renameByDefault: true, "),
            [],
            id="a rename that says what renameByDefault does anyway",
        ),
        pytest.param(
            mps("{name: gpu, replicas: 2, devices: [0, '1:0']}"),
            [
                (
                    "devices-ignored",
                    f"Customizing the 'devices' field in sharing.mps.resources {NOT_YET}",
                )
            ],
            id="devices per GPU are ignored",
        ),
        pytest.param(
            "flags: {mpsRoot: /m}\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}, "
            "mps: {resources: [{name: gpu, replicas: 2}]}}",
            [("time-slicing-ignored", None)],
            id="beside MPS time-slicing is ignored",
        ),
        pytest.param(
            mps("{name: gpu, replicas: 2}", flags="migStrategy: mixed, mpsRoot: /m"),
            [("mps-with-mixed", f"{FLAGS}using --mig-strategy=mixed is not supported with MPS")],
            id="MPS refuses mixed",
        ),
        pytest.param(
            mps("{name: gpu, replicas: 2}", flags=""),
            [("mps-root-elsewhere", f"{FLAGS}using MPS requires --mps-root to be specified")],
            id="MPS needs its folder from somewhere",
        ),
        pytest.param(
            mps("{name: gpu, replicas: 49}"),
            [
                (
                    "mps-replicas",
                    f"{DAEMONS}invalid device maximum allowed replicas exceeded: 49 > 48",
                )
            ],
            id="an MPS server has 48 clients",
        ),
    ],
)
def test_what_is_wrong_on_every_machine(text, found):
    assert [(one.id, one.text) for one in check_config(parse_device_plugin(text, "plugin.yaml"))] == found


SEVEN = ("1g.10gb",) * 7


@pytest.mark.parametrize(
    ("text", "gpus", "found"),
    [
        pytest.param(
            "flags: {migStrategy: single}",
            (SEVEN, SEVEN),
            [],
            id="single, all alike",
        ),
        pytest.param(
            "flags: {migStrategy: single}",
            (("3g.40gb", "1g.10gb"),),
            [("error", TWO_TYPES)],
            id="single refuses two kinds",
        ),
        pytest.param(
            "flags: {migStrategy: single}",
            (None, SEVEN),
            [
                (
                    "error",
                    f"{DEVICE_MAP}all devices on the node must be configured with the same migEnabled value",
                )
            ],
            id="single refuses some GPUs without MIG",
        ),
        pytest.param(
            "flags: {migStrategy: single}",
            (SEVEN, ()),
            [
                (
                    "error",
                    f"{NOT_CONFIGURED}: device 1 has no MIG devices configured",
                )
            ],
            id="single refuses a GPU in MIG mode without instances",
        ),
        pytest.param("flags: {migStrategy: single}", WHOLE, [], id="single without MIG"),
        pytest.param(
            "flags: {migStrategy: mixed}",
            (("3g.40gb", "1g.10gb"), None),
            [],
            id="mixed suits every geometry",
        ),
        pytest.param(
            "flags: {migStrategy: mixed}",
            (("1c.3g.40gb", "2c.3g.40gb"),),
            [
                (
                    "error",
                    f"{NO_RESOURCE}MIG profile '1c.3g.40gb' does not match any resource patterns",
                )
            ],
            id="mixed but for smaller compute instances",
        ),
        pytest.param(
            "flags: {migStrategy: mixed}",
            ((),),
            [("warning", "device 0 has no MIG devices configured")],
            id="mixed warns of a GPU without instances",
        ),
        pytest.param(
            "flags: {migStrategy: none}",
            (SEVEN,),
            [("warning", None)],
            id="none with a GPU in MIG mode",
        ),
        pytest.param(
            mps("{name: gpu, replicas: 2}", flags="migStrategy: single, mpsRoot: /m"),
            (SEVEN,),
            [
                (
                    "error",
                    f"{CREATING}failed to create plugin: sharing using MPS is not supported for MIG devices",
                )
            ],
            id="MPS with MIG",
        ),
        pytest.param(
            time_slicing("{name: mig-1g.10gb, replicas: 2}"),
            WHOLE,
            [("warning", None)],
            id="a resource that this machine does not have",
        ),
    ],
)
def test_what_is_wrong_on_a_machine(text, gpus, found):
    findings = check_machine(parse_device_plugin(text, "plugin.yaml"), cut_into(*gpus))
    assert [(str(one.severity), one.text) for one in findings] == found
    assert all(one.remedy for one in findings)


def test_a_gpu_whose_mig_devices_are_not_known_is_said_not_to_be_counted():
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
def test_a_lost_gpu_ends_the_plugin_with_every_strategy(strategy):
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
def test_a_gpu_that_the_plugin_does_not_stumble_over_is_not_called_lost(changes, driver):
    machine = with_second(cut_into(None, None), **changes)
    machine = replace(machine, nvidia=NvidiaDriver("580.95.05", error=driver))
    assert lines("flags: {migStrategy: none}", machine) == []


def test_a_gpu_that_the_driver_does_not_count_is_not_advertised():
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
def test_single_compares_more_than_the_names_of_mig_devices(second, found):
    machine = with_second(cut_into(SEVEN, SEVEN), **second)
    config = parse_device_plugin("flags: {migStrategy: single}", "plugin.yaml")
    assert [one.text for one in check_machine(config, machine)] == found


@pytest.mark.parametrize(
    ("text", "channel", "found"),
    [
        pytest.param("channelIDs: [0], required: true", True, [], id="it is there"),
        pytest.param(
            "channelIDs: [0], required: true",
            False,
            [("imex-channel-missing", f"{CHANNEL}requested IMEX channel channel0 does not exist")],
            id="it is not there",
        ),
        pytest.param(
            "channelIDs: [0], required: true", None, [("imex-channel-unknown", None)], id="not captured"
        ),
        pytest.param("channelIDs: [0]", False, [], id="not required"),
        pytest.param("required: true", False, [], id="none is asked for"),
    ],
)
def test_a_channel_that_is_required_has_to_be_there(text, channel, found):
    machine = replace(cut_into(None), nvidia_install=NvidiaInstall(imex_channel=channel))
    assert lines(f"imex: {{{text}}}", machine) == found
