"""`kubelet check --fix` prints a file with the right reservedMemory, and leaves every other line alone."""

from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode

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


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        pytest.param(
            f"{HEAD}{STATIC}reservedMemory:\n- {{numaNode: 0, limits: {{memory: 1Gi}}}}\n{TAIL}",
            f"{HEAD}{STATIC}{SHARES}{TAIL}",
            id="a sum that is wrong",
        ),
        pytest.param(
            f"{HEAD}{STATIC}reservedMemory:\n  - numaNode: 7\n    limits:\n      memory: 2Gi\n\n{TAIL}",
            f"{HEAD}{STATIC}{SHARES}\n{TAIL}",
            id="a NUMA node that does not exist",
        ),
        pytest.param(f"{HEAD}{STATIC}{TAIL}", f"{HEAD}{STATIC}{SHARES}{TAIL}", id="none at all"),
        pytest.param(f"{HEAD}{TAIL}", f"{HEAD}{TAIL}", id="nothing is wrong"),
    ],
)
def test_the_corrected_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, corrected: str
) -> None:
    file = tmp_path / "kubelet.yaml"
    file.write_text(text, encoding="utf-8")
    asked = ["kubelet", "check", str(file), "--machine", "dgx-h100", "--kubelet-version", "1.36", "--fix"]
    assert run(asked) == ExitCode.YES
    assert capsys.readouterr().out == corrected
    assert file.read_text(encoding="utf-8") == text


def test_what_is_wrong_besides_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kubelet.yaml"
    file.write_text(f"{HEAD}{STATIC}topologyManagerPolicy: single\n", encoding="utf-8")
    asked = ["kubelet", "check", str(file), "--machine", "dgx-h100", "--kubelet-version", "1.36", "--fix"]
    assert run(asked) == ExitCode.NO
    assert "topologyManagerPolicy" in capsys.readouterr().out
