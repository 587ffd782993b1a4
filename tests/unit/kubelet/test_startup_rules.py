"""One case for each rule that keeps a kubelet from starting, with the text it dies with."""

from __future__ import annotations

import pytest

from numaforge.kubelet.minors.versions import KNOWN_MINORS
from numaforge.kubelet.startup.check import check
from tests.fixtures.kubelet_texts import settings_of
from tests.fixtures.machines import lab_node

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STATIC = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'
RUN = "failed to run Kubelet: "
POLICY = f"{RUN}new static policy error: "
INVALID = "failed to validate kubelet configuration, error: invalid configuration: "
PANIC = "panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: "
GATES = "failed to set feature gates from initial flags-based config: "


def options(*names: str, gates: str = "") -> str:
    wanted = ", ".join(f'{name}: "true"' for name in names)
    return f"{STATIC}cpuManagerPolicyOptions: {{{wanted}}}\n{gates}"


ALPHA = "featureGates: {CPUManagerPolicyAlphaOptions: true}\n"
SYSCTLS = "featureGates: {DefaultPodSysctls: true}\n"


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [
        pytest.param(
            "1.31",
            "featureGates: {TopologyManager: true}\n",
            f"{GATES}unrecognized feature gate: TopologyManager",
            id="a removed gate, before defaults looked at gates",
        ),
        pytest.param(
            "1.33",
            "featureGates: {CPUManager: true}\n",
            f"{PANIC}unrecognized feature gate: CPUManager",
            id="a removed gate",
        ),
        pytest.param(
            "1.36",
            "featureGates: {TopologyManagerPolicyOptions: false}\n",
            f"{PANIC}cannot set feature gate TopologyManagerPolicyOptions to false, feature is locked to "
            "true",
            id="a locked gate",
        ),
        pytest.param(
            "1.36",
            "featureGates: {DRADeviceTaintRules: true, DRADeviceTaints: false}\n",
            f"{PANIC}DRADeviceTaintRules is enabled, but depends on features that are disabled: "
            "[DRADeviceTaints]",
            id="a gate that needs another",
        ),
        pytest.param(
            "1.32",
            f"{options('full-pcpus-only')}featureGates: {{CPUManagerPolicyOptions: false}}\n",
            f"{RUN}CPU Manager policy options map[full-pcpus-only:true] require feature gates "
            '"CPUManager", "CPUManagerPolicyOptions" enabled',
            id="options without their umbrella gate",
        ),
        pytest.param(
            "1.36",
            options("full-pcpu-only"),
            f'{POLICY}unknown CPU Manager Policy option: "full-pcpu-only"',
            id="an unknown option",
        ),
        pytest.param(
            "1.31",
            options("strict-cpu-reservation"),
            f'{POLICY}unknown CPU Manager Policy option: "strict-cpu-reservation"',
            id="an option of a newer kubelet",
        ),
        pytest.param(
            "1.32",
            options("strict-cpu-reservation"),
            f"{POLICY}CPU Manager Policy Alpha-level Options not enabled, but option "
            '"strict-cpu-reservation" provided',
            id="an alpha option without its gate",
        ),
        pytest.param(
            "1.36",
            options("full-pcpus-only", "distribute-cpus-across-cores", gates=ALPHA),
            f"{POLICY}static policy options full-pcpus-only and distribute-cpus-across-cores can not be "
            "used at "
            "the same time",
            id="a forbidden pair",
        ),
        pytest.param(
            "1.36",
            f"{STATIC}cpuManagerPolicyOptions: {{full-pcpus-only: 'yes'}}\n",
            f'{POLICY}bad value for option "full-pcpus-only": strconv.ParseBool: parsing "yes": invalid '
            "syntax",
            id="yes is no boolean",
        ),
        pytest.param(
            "1.36",
            "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n",
            f"{RUN}new none policy error: None policy: received unsupported "
            "options=map[full-pcpus-only:true]",
            id="options under policy none",
        ),
        pytest.param(
            "1.36",
            f"{options('align-by-socket', gates=ALPHA)}topologyManagerPolicy: single-numa-node\n",
            f"{POLICY}Topolgy manager single-numa-node policy is incompatible with CPUManager "
            "align-by-socket "
            "policy option",
            id="sockets against single NUMA nodes",
        ),
        pytest.param(
            "1.36", "cpuManagerPolicy: Static\n", f'{RUN}unknown policy: "Static"', id="a capital too many"
        ),
        pytest.param(
            "1.36", "memoryManagerPolicy: static\n", f'{RUN}unknown policy: "static"', id="a capital too few"
        ),
        pytest.param(
            "1.31",
            "memoryManagerPolicy: BestEffort\n",
            f'{RUN}unknown policy: "BestEffort"',
            id="no BestEffort yet",
        ),
        pytest.param(
            "1.32",
            "memoryManagerPolicy: BestEffort\n",
            f'{RUN}policy "BestEffort" is not available for platform "linux"',
            id="BestEffort is for Windows",
        ),
        pytest.param(
            "1.36",
            "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: "
            "{max-allowable-numa-nodes: '7'}\n",
            f'{RUN}the minimum value of "max-allowable-numa-nodes" should not be less than 8',
            id="a NUMA limit below the default",
        ),
        pytest.param(
            "1.32",
            "topologyManagerPolicy: x\n",
            f'{INVALID}topologyManagerPolicy (--topology-manager-policy) "x" must be one of: '
            '["none" "best-effort" "restricted" "single-numa-node"]',
            id="an unknown topology policy",
        ),
        pytest.param(
            "1.36",
            "kubeReserved: {hugepages-2Mi: 2Mi}\n",
            f'{RUN}--kube-reserved value failed to parse: cannot reserve "hugepages-2Mi" resource',
            id="hugepages cannot be reserved",
        ),
        pytest.param(
            "1.36",
            "memoryManagerPolicy: Static\nkubeReserved: {memory: 1436Mi}\n"
            "reservedMemory: [{numaNode: 0, limits: {memory: 1.5Gi}}]\n",
            f"{RUN}could not covert a variable of type Quantity to int64",
            id="a fraction in reservedMemory",
        ),
        pytest.param(
            "1.36",
            "evictionSoft: {memory.available: 1Gi}\n",
            f"{RUN}failed to create kubelet: grace period must be specified for the soft eviction threshold "
            "memory.available",
            id="a soft threshold without its grace period",
        ),
        pytest.param(
            "1.30",
            "enforceNodeAllocatable: [x]\n",
            f'{INVALID}option "x" specified for enforceNodeAllocatable (--enforce-node-allocatable). Valid '
            "options "
            'are "pods", "system-reserved", "kube-reserved", or "none"',
            id="an unknown enforcement, older wording",
        ),
        pytest.param(
            "1.29",
            "memorySwap: {swapBehavior: NoSwap}\nfeatureGates: {NodeSwap: true}\n",
            f'{INVALID}memorySwap.swapBehavior "NoSwap" must be one of: "", "LimitedSwap", or '
            '"UnlimitedSwap"',
            id="swap behaviours of 1.29",
        ),
        pytest.param(
            "1.36",
            "logging: {format: xml}\n",
            'initialize logging: logging.format: Invalid value: "xml": Unsupported log format',
            id="logging comes before validation",
        ),
        pytest.param(
            "1.36",
            "kubeReserved: {cpu: '1000'}\n",
            'invalid Node Allocatable configuration. Resource "cpu" has a reservation of '
            "{{1000 0} {<nil>}  DecimalSI} but capacity of {{CAPACITY -3} {<nil>}  DecimalSI}. Expected "
            "capacity >= "
            "reservation.",
            id="more CPUs reserved than there are",
        ),
        pytest.param(
            "1.36",
            "logging: {flushFrequency: -1}\n",
            "initialize logging: logging.flushFrequency: Invalid value: -1: Must be greater than zero",
            id="a log that is flushed every negative number of nanoseconds",
        ),
        pytest.param(
            "1.36",
            "featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 1.5\n",
            f"{INVALID}memoryThrottlingFactor 1.5 must be greater than 0 and less than or equal to 1.0",
            id="a throttling factor above 1",
        ),
        pytest.param(
            "1.37",
            "featureGates: {MemoryQoS: false}\nmemoryThrottlingFactor: 0.8\n",
            f"{INVALID}memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled",
            id="from 1.37 on a throttling factor needs MemoryQoS",
        ),
        pytest.param(
            "1.37",
            "defaultPodSysctls: {net.ipv4.ip_forward: '1'}\n",
            f"{INVALID}DefaultPodSysctls feature gate is required for Kubelet configuration option "
            "defaultPodSysctls",
            id="sysctls for all pods without their gate",
        ),
        pytest.param(
            "1.37",
            f"{SYSCTLS}defaultPodSysctls: {{Net.x: '1'}}\n",
            f'{INVALID}"Net.x" is not a valid sysctl name for defaultPodSysctls',
            id="a sysctl for all pods in capitals",
        ),
        pytest.param(
            "1.37",
            f"{SYSCTLS}defaultPodSysctls: {{vm.swappiness: '1'}}\n",
            f'{INVALID}"vm.swappiness" is not known to be namespaced for defaultPodSysctls',
            id="a sysctl of the whole host for all pods",
        ),
        pytest.param(
            "1.37",
            f"{SYSCTLS}defaultPodSysctls: {{net.ipv4.ip_forward: '1', net/ipv4/ip_forward: '0'}}\n",
            f'{INVALID}duplicate sysctl "net.ipv4.ip_forward" found in defaultPodSysctls',
            id="a sysctl for all pods in two spellings",
        ),
        pytest.param(
            "1.37",
            "featureGates: {SidecarContainers: true}\n",
            f"{PANIC}unrecognized feature gate: SidecarContainers",
            id="a gate that is gone in 1.37",
        ),
        pytest.param(
            "1.37",
            "featureGates: {InPlacePodVerticalScaling: false}\n",
            f"{PANIC}cannot set feature gate InPlacePodVerticalScaling to false, feature is locked to true",
            id="a gate that is locked until it goes",
        ),
    ],
)
def test_dies_with(version: str, body: str, error: str) -> None:
    topology = lab_node()
    report = check(HEADER + body, topology=topology, version=version)
    assert report.error == error.replace("CAPACITY", str(1000 * len(topology.online)))


@pytest.mark.parametrize("version", [f"1.{minor}" for minor in KNOWN_MINORS])
def test_every_minor_starts_with_its_defaults(version: str) -> None:
    assert check(HEADER, topology=lab_node(), version=version).starts


def test_gates_of_flags_add_to_those_of_the_file() -> None:
    effective = settings_of(
        f"{HEADER}featureGates: {{AllAlpha: false}}\n", {}, ["--feature-gates=AllBeta=false"]
    )
    assert effective["featureGates"] == {"AllAlpha": False, "AllBeta": False}


def test_a_relative_path_is_one_beside_the_file() -> None:
    effective = settings_of(
        f"{HEADER}staticPodPath: manifests\nauthentication: {{x509: {{clientCAFile: pki/ca.crt}}}}\n"
    )
    assert effective["staticPodPath"] == "/var/lib/kubelet/manifests"
    assert effective["authentication"]["x509"]["clientCAFile"] == "/var/lib/kubelet/pki/ca.crt"


def test_all_validation_errors_come_together() -> None:
    report = check(f"{HEADER}maxPods: -1\nport: -1\n", topology=lab_node(), version="1.36")
    assert [finding.where for finding in report.findings if finding.id == "NF110"] == ["maxPods", "port"]
    assert (report.error or "").startswith("failed to validate kubelet configuration, error: [invalid")


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        pytest.param(["--nope"], "unknown flag: --nope", id="an unknown flag"),
        pytest.param(
            ["-max-pods=3"], "unknown shorthand flag: 'm' in -max-pods=3", id="one dash is a shorthand"
        ),
        pytest.param(["--max-pods"], "flag needs an argument: --max-pods", id="a flag without its value"),
        pytest.param(
            ["--max-pods=x"],
            'invalid argument "x" for "--max-pods" flag: strconv.ParseInt: parsing "x": invalid syntax',
            id="not a number",
        ),
        pytest.param(
            ["--reserved-memory=0:memory"],
            'invalid argument "0:memory" for "--reserved-memory" flag: the reserved limit has incorrect '
            "value, "
            "expected type=quantity, got memory",
            id="a reservation without a quantity",
        ),
        pytest.param(
            ["--eviction-hard=memory.available"],
            'invalid argument "memory.available" for "--eviction-hard" flag: malformed pair, expect '
            "string<string",
            id="a threshold without a value",
        ),
        pytest.param(["--cpu_manager"], "unknown flag: --cpu_manager", id="an unknown flag as it is written"),
        pytest.param(["---max-pods=3"], "bad flag syntax: ---max-pods=3", id="three dashes"),
        pytest.param(["x", "--nope"], "unknown flag: --nope", id="a flag after a word, which is found first"),
        pytest.param(
            ["--max-pods=09"],
            'invalid argument "09" for "--max-pods" flag: strconv.ParseInt: parsing "09": invalid syntax',
            id="an octal number with a nine",
        ),
        pytest.param(
            ["--vmodule=kubelet=x"],
            'invalid argument "kubelet=x" for "--vmodule" flag: parsing verbosity in "kubelet=x": '
            'strconv.ParseUint: parsing "x": invalid syntax',
            id="a module's verbosity that is no number",
        ),
        pytest.param(
            ["--register-with-taints=gpu"],
            'invalid argument "gpu" for "--register-with-taints" flag: invalid taint spec: gpu',
            id="a taint without an effect",
        ),
        pytest.param(
            ["--register-with-taints=gpu:NoSchedule,gpu=1:NoSchedule"],
            'invalid argument "gpu:NoSchedule,gpu=1:NoSchedule" for "--register-with-taints" flag: '
            "duplicated taints with the same key and effect: {gpu 1 NoSchedule <nil>}",
            id="a taint twice",
        ),
        pytest.param(
            ["--manifest-url-header=a"],
            'invalid argument "a" for "--manifest-url-header" flag: malformed pair, expect string:string',
            id="a header without a value",
        ),
        pytest.param(
            ["--sync-frequency=9999999999999999999"],
            'invalid argument "9999999999999999999" for "--sync-frequency" flag: time: invalid duration '
            '"9999999999999999999"',
            id="a number beyond any duration",
        ),
    ],
)
def test_command_lines_that_cannot_be_parsed(flags: list[str], error: str) -> None:
    report = check(HEADER, topology=lab_node(), version="1.36", flags=flags)
    assert report.error == f"failed to parse kubelet flag: {error}"


def test_labels_that_a_kubelet_may_not_set() -> None:
    report = check(
        HEADER, topology=lab_node(), version="1.36", flags=["--node-labels=kubernetes.io/role=gpu"]
    )
    assert (
        "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [kubernetes.io/role]"
        in (report.error or "")
    )
    allowed = ["--node-labels=node.kubernetes.io/pool=gpu,example.com/role=gpu,gpu"]
    assert check(HEADER, topology=lab_node(), version="1.36", flags=allowed).starts


def test_labels_of_a_wrong_form() -> None:
    flags = ["--node-labels=example.com/role=-"]
    report = check(HEADER, topology=lab_node(), version="1.36", flags=flags)
    assert (report.error or "").startswith(
        "failed to validate kubelet flags: invalid node labels: '-' - a valid label must be an empty string"
    )


@pytest.mark.parametrize(("text", "pods"), [("0x10", 16), ("010", 8), ("1_000", 1000), ("+5", 5)])
def test_numbers_of_flags_are_written_as_in_go(text: str, pods: int) -> None:
    report = check(HEADER, topology=lab_node(), version="1.36", flags=[f"--max-pods={text}"])
    assert report.effective["maxPods"] == pods


DECODING = (
    "failed to load kubelet config file, path: $CONFIG, error: "
    "failed to load Kubelet config file $CONFIG, error "
)


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [
        pytest.param("1.30", "syncFrequency:\n", 'time: invalid duration ""', id="a duration left empty"),
        pytest.param(
            "1.36", "shutdownGracePeriod: null\n", 'time: invalid duration ""', id="a null duration"
        ),
        pytest.param(
            "1.36",
            'syncFrequency: "1µs\\n"\n',
            'time: unknown unit "\\xc2\\xb5s\\x0a" in duration "1\\xc2\\xb5s\\x0a"',
            id="a unit beyond ASCII, in bytes",
        ),
        pytest.param(
            "1.36",
            "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: é}]\n",
            'parsing time "\\xc3\\xa9" as "2006-01-02T15:04:05Z07:00": cannot parse "\\xc3\\xa9" as "2006"',
            id="a time beyond ASCII, in bytes",
        ),
        pytest.param(
            "1.36",
            "logging: {flushFrequency: 1.5}\n",
            'invalid duration "1.5": json: cannot unmarshal number 1.5 into Go value of type time.Duration',
            id="a fraction of nanoseconds",
        ),
        pytest.param(
            "1.36",
            "kubeAPIQPS: 1e500\n",
            "json: cannot unmarshal string into Go struct field KubeletConfiguration.kubeAPIQPS of type "
            "int32",
            id="a number too large for a float, which is text",
        ),
        pytest.param(
            "1.36",
            "apiversion: v1\n",
            'no kind "KubeletConfiguration" is registered for version "v1" in scheme '
            '"pkg/runtime/scheme.go:111"',
            id="apiversion after apiVersion, which counts",
        ),
        pytest.param(
            "1.36",
            "<<: 5\n",
            "yaml: map merge requires map or sequence of maps as the value",
            id="a merge of no map",
        ),
        pytest.param(
            "1.36", "a: \x07\n", "yaml: control characters are not allowed", id="a control character"
        ),
    ],
)
def test_cannot_be_decoded(version: str, body: str, error: str) -> None:
    report = check(HEADER + body, topology=lab_node(), version=version, config_path="$CONFIG")
    assert report.error == f"{DECODING}failed to decode: {error}"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("cpuCFSQuotaPeriod: null\n", id="null where no duration is a duration too"),
        pytest.param("reservedMemory: [{numaNode: 0, limits: {}}]\n", id="no limit at all"),
        pytest.param("maxPods: 10\n---\n[\n", id="a second document that is no YAML"),
        pytest.param(f"maxPods: 10\n---\n{HEADER}maxPods: -1\n", id="only the first of two configurations"),
        pytest.param("podLogsDir: pods\n", id="a relative path, which stands for one beside the file"),
    ],
)
def test_is_decoded(body: str) -> None:
    assert check(HEADER + body, topology=lab_node(), version="1.36", config_path="$CONFIG").starts


@pytest.mark.parametrize(
    ("version", "api_version", "kind"),
    [
        ("1.30", "kubelet.config.k8s.io/v1beta1", "CredentialProviderConfig"),
        ("1.36", "kubelet.config.k8s.io/v1", "CredentialProviderConfig"),
        ("1.35", "kubelet.config.k8s.io/v1beta1", "ImagePullIntent"),
    ],
)
def test_other_kinds_of_the_kubelet_are_no_configuration(version: str, api_version: str, kind: str) -> None:
    text = f"apiVersion: {api_version}\nkind: {kind}\n"
    report = check(text, topology=lab_node(), version=version, config_path="$CONFIG")
    cast = "failed to cast object to KubeletConfiguration, unexpected type:"
    assert report.error == f"{DECODING}{cast} {api_version}, Kind={kind}"


def test_lower_case_apiversion_is_enough_for_a_file_and_not_for_a_drop_in() -> None:
    text = HEADER.replace("apiVersion", "apiversion")
    assert check(text, topology=lab_node(), version="1.36").starts
    report = check(HEADER, topology=lab_node(), version="1.36", drop_ins={"10.conf": text})
    assert report.error is not None
    assert report.error.endswith("/10.conf, unknown apiVersion/kind: /, Kind=KubeletConfiguration")


def test_configuration_behind_an_empty_document_is_not_read() -> None:
    report = check(f"---\n---\n{HEADER}", topology=lab_node(), version="1.36", config_path="$CONFIG")
    assert report.error == f"{DECODING}failed to decode: Object 'Kind' is missing in '---\n---\n{HEADER}'"


DEPENDENCIES = "failed to construct kubelet dependencies: "
CREATE = f"{RUN}failed to create kubelet: "
SYSCTL = (
    r"must have at most 253 characters and match regex "
    r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
)


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [
        pytest.param(
            "1.30",
            "tlsCipherSuites: [TLS_AES_128_GCM_SHA256, AES128-SHA]\n",
            f"{DEPENDENCIES}Cipher suite AES128-SHA not supported or doesn't exist",
            id="a cipher suite in the words of OpenSSL",
        ),
        pytest.param(
            "1.36",
            "tlsCurvePreferences: [29, 29]\n",
            f"{DEPENDENCIES}duplicate curve preference 29",
            id="a curve twice",
        ),
        pytest.param(
            "1.36",
            "tlsCurvePreferences: [0]\n",
            f"{DEPENDENCIES}curve preference 0 is out of range (must be 1-65535)",
            id="no curve's number",
        ),
        pytest.param(
            "1.36",
            "tlsCurvePreferences: [26]\n",
            f"{DEPENDENCIES}curve preference 26 is not supported by the current Go version",
            id="a curve that Go lacks",
        ),
        pytest.param(
            "1.30",
            "syncFrequency: -1s\n",
            f"{CREATE}invalid sync frequency -1000000000",
            id="a negative sync frequency",
        ),
        pytest.param(
            "1.30",
            "containerLogMaxSize: 1.5Gi\n",
            f"{CREATE}failed to initialize container log manager: failed to parse container log max size "
            '"1.5Gi": invalid max log size',
            id="a log size with a fraction",
        ),
        pytest.param(
            "1.30",
            "allowedUnsafeSysctls: [kernel.msg*, vm.swappiness]\n",
            f'{CREATE}the sysctls "vm.swappiness" are not known to be namespaced',
            id="a sysctl of the whole host",
        ),
        pytest.param(
            "1.30",
            "allowedUnsafeSysctls: [net/ipv4/conf/eth0.1/*, Net.x]\n",
            f'{CREATE}sysctl "Net.x" {SYSCTL}',
            id="a sysctl in capitals",
        ),
        pytest.param(
            "1.36",
            'qosReserved: {memory: "99999999999999999999%"}\n',
            f'{RUN}--qos-reserved value failed to parse: failed to parse percentage "99999999999999999999%" '
            "for \"memory\" resource: invalid number in percentage '99999999999999999999%'",
            id="a share beyond 64 bits",
        ),
        pytest.param(
            "1.36",
            "allowedUnsafeSysctls: [user.max_user_namespaces]\n",
            f'{CREATE}the sysctls "user.max_user_namespaces" are not known to be namespaced',
            id="a sysctl of user namespaces, before 1.37",
        ),
        pytest.param(
            "1.37",
            "allowedUnsafeSysctls: [user.*, kernel.domainname, vm.swappiness]\n",
            f'{CREATE}the sysctls "vm.swappiness" are not known to be namespaced',
            id="a sysctl of the whole host, from 1.37 on beside those of user namespaces",
        ),
    ],
)
def test_set_up_dies_with(version: str, body: str, error: str) -> None:
    assert check(HEADER + body, topology=lab_node(), version=version).error == error


ALLOWLIST = "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n"
PATTERN = f"{INVALID}invalid image pattern in `preloadedImagesVerificationAllowlist`: "
SPOILT = "failed to parse as an image name: "


@pytest.mark.parametrize(
    ("version", "pattern", "error"),
    [
        ("1.36", "nginx", None),
        ("1.35", "nginx", "neither tag nor digest is accepted in an image reference: nginx"),
        ("1.35", "docker.io/library/nginx", None),
        ("1.36", "registry.example:5000/team/*", None),
        ("1.36", "a/*/b", "not a valid wildcard pattern, only patterns ending with '/*' are allowed: a/*/b"),
        ("1.36", "/*", "at least registry hostname is required"),
        ("1.36", "", "the supplied pattern is too short: "),
        ("1.36", " a", "leading/trailing spaces are not allowed:  a"),
        ("1.36", "registry.example/a:1", "neither tag nor digest is accepted in an image reference: "),
        ("1.36", "registry.example/A", f"{SPOILT}repository name must be lowercase"),
        ("1.35", "a/B", f"{SPOILT}invalid reference format: repository name (a/B) must be lowercase"),
        ("1.36", "http://a", f"{SPOILT}invalid reference format"),
    ],
)
def test_preloaded_images_that_are_named(version: str, pattern: str, error: str | None) -> None:
    if error and error.endswith("reference: "):
        error += pattern
    body = f'{ALLOWLIST}preloadedImagesVerificationAllowlist: ["{pattern}"]\n'
    report = check(HEADER + body, topology=lab_node(), version=version)
    assert report.error == (f"{PATTERN}{error}" if error else None)


@pytest.mark.parametrize(
    ("endpoint", "error"),
    [
        ("collector:4317", None),
        (
            "host:port",
            '"dns://host:port": parse "dns://host:port": invalid port ":port" after host',
        ),
        ("%zz", '"dns://%zz": parse "dns://%zz": invalid URL escape "%zz"'),
        ("a b:1", '"dns://a b:1": parse "dns://a b:1": invalid character " " in host name'),
    ],
)
def test_tracing_endpoints(endpoint: str, error: str | None) -> None:
    report = check(HEADER + f"tracing: {{endpoint: '{endpoint}'}}\n", topology=lab_node(), version="1.36")
    refused = f"failed to validate kubelet configuration, error: tracing.endpoint: Invalid value: {error}"
    assert report.error == (refused if error else None)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(
            "hairpinMode: |\n  none\n",
            'option "none\\n" specified for hairpinMode (--hairpin-mode). Valid options are "none", '
            '"hairpin-veth" or "promiscuous-bridge"',
            id="a line break in a word",
        ),
        pytest.param(
            "reservedSystemCPUs: |\n  0-1\n",
            "unable to parse reservedSystemCPUs (--reserved-cpus) 0-1\n, error: "
            'strconv.Atoi: parsing "1\\n": invalid syntax',
            id="a line break after the CPUs",
        ),
        pytest.param(
            "featureGates: {KubeletCrashLoopBackOffMax: true}\n"
            "crashLoopBackOff: {maxContainerRestartPeriod: 720h}\n",
            "CrashLoopBackOff.MaxContainerRestartPeriod (got: 2.592e+06 seconds) must be set between 1s and "
            "300s",
            id="a large number of seconds",
        ),
        pytest.param(
            "reservedMemory: [{numaNode: 0, limits: {memory: null}}]\n",
            'reserved memory may not be zero for NUMA node 0 and resource "memory"',
            id="null where a quantity stands, which is 0",
        ),
    ],
)
def test_values_are_shown_as_go_shows_them(body: str, error: str) -> None:
    assert check(HEADER + body, topology=lab_node(), version="1.36").error == INVALID + error
