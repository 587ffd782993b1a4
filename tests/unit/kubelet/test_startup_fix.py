"""`kubelet check --fix` corrects what has one right value, and leaves every other line alone."""

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from tests.fixtures.tables import cases

HEAD = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# our reservations
kubeReserved: {memory: 1Gi}
systemReserved: {memory: 924Mi}
"""
STATIC = "memoryManagerPolicy: Static\n"
TAIL = "maxPods: 250  # many\n"
SHARES = """\
reservedMemory:
- {numaNode: 0, limits: {memory: 1Gi}}
- {numaNode: 1, limits: {memory: 1Gi}}
""".replace("1Gi", "1024Mi")


@cases(
    "text, corrected",
    {
        "a sum that is wrong": (
            f"{HEAD}{STATIC}reservedMemory:\n- {{numaNode: 0, limits: {{memory: 1Gi}}}}\n{TAIL}",
            f"{HEAD}{STATIC}{SHARES}{TAIL}",
        ),
        "a NUMA node that does not exist": (
            f"{HEAD}{STATIC}reservedMemory:\n  - numaNode: 7\n    limits:\n      memory: 2Gi\n\n{TAIL}",
            f"{HEAD}{STATIC}{SHARES}\n{TAIL}",
        ),
        "none at all": (f"{HEAD}{STATIC}{TAIL}", f"{HEAD}{STATIC}{SHARES}{TAIL}"),
        "nothing is wrong": (f"{HEAD}{TAIL}", f"{HEAD}{TAIL}"),
        "a word in another case, and a number that has to be a text": (
            f"{HEAD}cpuManagerPolicy: Static  # why\nreservedSystemCPUs: 0\ntopologyManagerScope: 'POD'\n",
            f'{HEAD}cpuManagerPolicy: static  # why\nreservedSystemCPUs: "0"\ntopologyManagerScope: pod\n',
        ),
        "an option that has to be a text": (
            (
                f"{HEAD}topologyManagerPolicy: restricted\n"
                "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: yes}\n"
            ),
            (
                f"{HEAD}topologyManagerPolicy: restricted\n"
                'topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}\n'
            ),
        ),
        "a gate in braces that this minor no longer knows": (
            f"{HEAD}featureGates: {{MemoryQoS: false, CPUManager: true}}\n",
            f"{HEAD}featureGates: {{MemoryQoS: false}}\n",
        ),
        "a gate that no minor here knows": (
            f"{HEAD}featureGates:\n  MemoryQoS: false\n  DynamicKubeletConfig: false  # old\n",
            f"{HEAD}featureGates:\n  MemoryQoS: false\n",
        ),
        "keys that are written twice": (
            f"{HEAD}maxPods: 100\nclusterDNS:\n- 10.0.0.1\nmaxPods: 200\nclusterDNS: [10.0.0.10]\n",
            f"{HEAD}maxPods: 200\nclusterDNS: [10.0.0.10]\n",
        ),
    },
)
def test_fix_prints_the_corrected_file(tmp_path, capsys, text, corrected):
    file = tmp_path / "kubelet.yaml"
    file.write_text(text, encoding="utf-8")
    asked = ["kubelet", "check", str(file), "--machine", "dgx-h100", "--kubelet-version", "1.36", "--fix"]
    assert run(asked) == ExitCode.YES
    assert capsys.readouterr().out == corrected
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        ("topologyManagerPolicy: single\n", "topologyManagerPolicy"),
        ("featureGates: {MemoryQos: true}\n", "MemoryQos"),
        ('cpuManagerPolicy: none\ncpuManagerPolicyOptions: {full-pcpus-only: "true"}\n', "full-pcpus-only"),
    ],
    ids=["a word that is near none", "a misspelt gate", "an option that needs another policy"],
)
def test_ambiguous_mistake_is_named_instead_of_fixed(tmp_path, capsys, mistake, named):
    file = tmp_path / "kubelet.yaml"
    file.write_text(f"{HEAD}{STATIC}{mistake}", encoding="utf-8")
    asked = ["kubelet", "check", str(file), "--machine", "dgx-h100", "--kubelet-version", "1.36", "--fix"]
    assert run(asked) == ExitCode.NO
    assert named in capsys.readouterr().out
