"""Whether an interrupt is where it should be: the shell's own judgement, in every shell."""

import subprocess

import pytest

from numaforge.lib import shell

LIST, MASK = "/proc/irq/7/smp_affinity_list", "/sys/mask"


@pytest.mark.parametrize("interpreter", ["dash", "bash", "busybox sh"])
@pytest.mark.parametrize(
    ("path", "now", "wanted", "fits"),
    [
        pytest.param(LIST, "0,64", "0,64", True, id="the-same"),
        pytest.param(LIST, "64", "0,64-67", True, id="one-of-them"),
        pytest.param(LIST, "65-66", "0,64-67", True, id="some-of-a-range"),
        pytest.param(LIST, "0,4", "0", False, id="one-too-many"),
        pytest.param(LIST, "0-127", "0,64", False, id="everywhere"),
        pytest.param(LIST, "6", "64", False, id="a-number-that-begins-alike"),
        pytest.param(LIST, "", "0", False, id="nowhere"),
        pytest.param(MASK, "00000000,00000011", "11", True, id="a-mask-with-zeros-in-front"),
        pytest.param(MASK, "1,00000000", "1,00000000", True, id="a-mask-of-two-groups"),
        pytest.param(MASK, "1,00000000", "1", False, id="another-group"),
        pytest.param(MASK, "01", "11", False, id="a-mask-has-to-be-the-same"),
        pytest.param(MASK, "00", "0", True, id="an-empty-mask"),
    ],
)
def test_irq_affinity_must_lie_within_the_list_or_equal_the_mask(interpreter, path, now, wanted, fits):
    script = shell.library("roles/interrupts/affinity") + shell.call("affinity_fits", [path, now, wanted])
    done = subprocess.run(interpreter.split(), input=script, capture_output=True, text=True, check=False)
    assert (done.returncode == 0, done.stderr) == (fits, "")
