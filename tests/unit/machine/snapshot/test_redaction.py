"""Secrets leave a text, everything else stays."""

import json

import pytest
import yaml

from numaforge.machine.snapshot.redaction import (
    redact,
    redact_cpuinfo,
    redact_device_checkpoint,
    redact_nvidia_smi,
)
from tests.fixtures.machines import KUBEADM_CONFIG
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)


@pytest.mark.parametrize(("text", "kept"), CASES["secrets"].values(), ids=CASES["secrets"])
def test_secrets_are_redacted(text, kept):
    assert redact(text) == kept


@cases(
    "text",
    {
        "kubeadms-config": KUBEADM_CONFIG,
        "a-word-that-only-resembles-one": "authentication:\n  webhook:\n    cacheTTL: 2m0s\n",
        "a-switch": "--authentication-token-webhook=true",
        "a-path": "tokenFile: /var/run/token\n",
        "a-path-in-a-flag": "--image-credential-provider-config=/etc/kubernetes/cred.yaml",
        "flags": "--kubeconfig=/etc/kubernetes/kubelet.conf --config=/etc/kubelet.yaml",
        "a-kernel-command-line": "BOOT_IMAGE=/vmlinuz root=UUID=1234-56 isolcpus=2-3",
        "a-duration": "tokenTTL: 10m\n",
    },
)
def test_redaction_keeps_text_without_secrets(text):
    assert redact(text) == text


@cases("load", {"yaml": yaml.safe_load, "json": json.loads})
def test_redacted_config_still_parses(load):
    config = {"kind": "KubeletConfiguration", "staticPodURLHeader": {"A": ["b", "c"]}, "maxPods": 110}
    text = yaml.safe_dump(config) if load is yaml.safe_load else json.dumps(config, indent=2)
    assert load(redact(text)) == config | {"staticPodURLHeader": {}}


def test_device_plugin_container_settings_are_removed_from_checkpoint():
    text = '{"PodUID":"u","AllocResp":"CkgKHE5WSURJQQ=="},{"PodUID":"v","AllocResp":null}'
    assert redact_device_checkpoint(text) == '{"PodUID":"u","AllocResp":""},{"PodUID":"v","AllocResp":null}'


@pytest.mark.parametrize(
    "line",
    [
        "<serial>1650000000000</serial>",
        "<chassis_serial_number>18200</chassis_serial_number>",
        "<gpu_fabric_guid>0x0123456789abcdef</gpu_fabric_guid>",
        "<pdi>0x123456789a0bcdef</pdi>",
        "<process_name>train --key k</process_name>",
    ],
)
def test_board_and_user_identifiers_are_redacted_from_nvidia_smi(line):
    assert (
        redact_nvidia_smi(f"<gpu>\n\t{line}\n\t<pid>7</pid>\n</gpu>\n") == "<gpu>\n\t<pid>7</pid>\n</gpu>\n"
    )


def test_board_serial_number_is_removed_from_cpuinfo():
    text = "processor\t: 0\nflags\t: serialize\nSerial\t\t: 100000004a5b\n"
    assert redact_cpuinfo(text) == "processor\t: 0\nflags\t: serialize\n"
