"""What keeps a kubelet from starting: the table of refused.yaml, and what takes more than a row of it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.versions import KNOWN_MINORS
from tests.fixtures.kubelet_texts import settings_of
from tests.fixtures.machines import lab_node
from tests.fixtures.tables import cases

REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
INVALID = "failed to validate kubelet configuration, error: invalid configuration: "


def checked(text: str, version: str = "1.36", **given: Any) -> Report:
    return check(text, topology=lab_node(), version=version, config_path="$CONFIG", **given)


@cases(
    "minor, given, error",
    {rule: (minor, *row) for minor, rows in REFUSED.items() for rule, row in rows.items()},
)
def test_predicted_error_matches_the_kubelet_text(minor: str, given: str | list[str], error: str) -> None:
    text, flags = (HEADER + given, ()) if isinstance(given, str) else (HEADER, given)
    assert checked(text, minor, flags=flags).error == error


@pytest.mark.parametrize("version", [f"1.{minor}" for minor in KNOWN_MINORS])
def test_every_minor_starts_with_default_settings(version: str) -> None:
    assert checked(HEADER, version).starts


def test_feature_gates_of_flags_and_file_are_merged() -> None:
    effective = settings_of(
        f"{HEADER}featureGates: {{AllAlpha: false}}\n", {}, ["--feature-gates=AllBeta=false"]
    )
    assert effective["featureGates"] == {"AllAlpha": False, "AllBeta": False}


def test_relative_path_resolves_beside_the_file() -> None:
    effective = settings_of(
        f"{HEADER}staticPodPath: manifests\nauthentication: {{x509: {{clientCAFile: pki/ca.crt}}}}\n"
    )
    assert effective["staticPodPath"] == "/var/lib/kubelet/manifests"
    assert effective["authentication"]["x509"]["clientCAFile"] == "/var/lib/kubelet/pki/ca.crt"


def test_all_validation_errors_are_reported_together() -> None:
    report = checked(f"{HEADER}maxPods: -1\nport: -1\n")
    assert [finding.where for finding in report.findings if finding.id == "NF110"] == ["maxPods", "port"]
    assert (report.error or "").startswith("failed to validate kubelet configuration, error: [invalid")


def test_restricted_node_label_is_refused() -> None:
    report = checked(HEADER, flags=["--node-labels=kubernetes.io/role=gpu"])
    said = "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [kubernetes.io/role]"
    assert said in str(report.error)
    allowed = ["--node-labels=node.kubernetes.io/pool=gpu,example.com/role=gpu,gpu"]
    assert checked(HEADER, flags=allowed).starts


def test_malformed_node_label_is_refused() -> None:
    flags = ["--node-labels=example.com/role=-"]
    report = checked(HEADER, flags=flags)
    assert (report.error or "").startswith(
        "failed to validate kubelet flags: invalid node labels: '-' - a valid label must be an empty string"
    )


@pytest.mark.parametrize(("text", "pods"), [("0x10", 16), ("010", 8), ("1_000", 1000), ("+5", 5)])
def test_flag_numbers_accept_go_notation(text: str, pods: int) -> None:
    report = checked(HEADER, flags=[f"--max-pods={text}"])
    assert report.effective["maxPods"] == pods


DECODING = (
    "failed to load kubelet config file, path: $CONFIG, error: "
    "failed to load Kubelet config file $CONFIG, error "
)


@cases(
    "body",
    {
        "null where no duration is a duration too": "cpuCFSQuotaPeriod: null\n",
        "no limit at all": "reservedMemory: [{numaNode: 0, limits: {}}]\n",
        "a second document that is no YAML": "maxPods: 10\n---\n[\n",
        "only the first of two configurations": f"maxPods: 10\n---\n{HEADER}maxPods: -1\n",
        "a relative path, which stands for one beside the file": "podLogsDir: pods\n",
    },
)
def test_unusual_but_valid_file_is_decoded(body: str) -> None:
    assert checked(HEADER + body).starts


@pytest.mark.parametrize(
    ("version", "api_version", "kind"),
    [
        ("1.30", "kubelet.config.k8s.io/v1beta1", "CredentialProviderConfig"),
        ("1.36", "kubelet.config.k8s.io/v1", "CredentialProviderConfig"),
        ("1.35", "kubelet.config.k8s.io/v1beta1", "ImagePullIntent"),
    ],
)
def test_other_kinds_of_the_kubelet_api_are_refused(version: str, api_version: str, kind: str) -> None:
    text = f"apiVersion: {api_version}\nkind: {kind}\n"
    report = checked(text, version)
    cast = "failed to cast object to KubeletConfiguration, unexpected type:"
    assert report.error == f"{DECODING}{cast} {api_version}, Kind={kind}"


def test_lower_case_apiversion_works_in_the_file_but_not_in_a_drop_in() -> None:
    text = HEADER.replace("apiVersion", "apiversion")
    assert checked(text).starts
    report = checked(HEADER, drop_ins={"10.conf": text})
    assert report.error.endswith("/10.conf, unknown apiVersion/kind: /, Kind=KubeletConfiguration")


def test_configuration_after_an_empty_document_is_not_read() -> None:
    report = checked(f"---\n---\n{HEADER}")
    assert report.error == f"{DECODING}failed to decode: Object 'Kind' is missing in '---\n---\n{HEADER}'"


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
def test_preloaded_image_patterns_are_validated_by_minor(
    version: str, pattern: str, error: str | None
) -> None:
    if error and error.endswith("reference: "):
        error += pattern
    body = f'{ALLOWLIST}preloadedImagesVerificationAllowlist: ["{pattern}"]\n'
    report = checked(HEADER + body, version)
    assert report.error == (f"{PATTERN}{error}" if error else None)


@pytest.mark.parametrize(
    ("endpoint", "error"),
    [
        ("collector:4317", None),
        ("host:port", 'invalid port ":port" after host'),
        ("%zz", 'invalid URL escape "%zz"'),
        ("a b:1", 'invalid character " " in host name'),
    ],
)
def test_invalid_tracing_endpoint_is_refused(endpoint: str, error: str | None) -> None:
    report = checked(HEADER + f"tracing: {{endpoint: '{endpoint}'}}\n")
    refused = "failed to validate kubelet configuration, error: tracing.endpoint: Invalid value: "
    refused += f'"dns://{endpoint}": parse "dns://{endpoint}": {error}'
    assert report.error == (refused if error else None)
