"""Whether an interrupt is where it should be: the shell's own judgement, in every shell."""

import subprocess

import pytest

from numaforge.lib import shell
from tests.fixtures.tables import cases

LIST, MASK = "/proc/irq/7/smp_affinity_list", "/sys/mask"


@pytest.mark.parametrize("interpreter", ["dash", "bash", "busybox sh"])
@cases(
    "path, now, wanted, fits",
    {
        "the-same": (LIST, "0,64", "0,64", True),
        "one-of-them": (LIST, "64", "0,64-67", True),
        "some-of-a-range": (LIST, "65-66", "0,64-67", True),
        "one-too-many": (LIST, "0,4", "0", False),
        "everywhere": (LIST, "0-127", "0,64", False),
        "a-number-that-begins-alike": (LIST, "6", "64", False),
        "nowhere": (LIST, "", "0", False),
        "a-mask-with-zeros-in-front": (MASK, "00000000,00000011", "11", True),
        "a-mask-of-two-groups": (MASK, "1,00000000", "1,00000000", True),
        "another-group": (MASK, "1,00000000", "1", False),
        "a-mask-has-to-be-the-same": (MASK, "01", "11", False),
        "an-empty-mask": (MASK, "00", "0", True),
    },
)
def test_irq_affinity_must_lie_within_the_list_or_equal_the_mask(interpreter, path, now, wanted, fits):
    script = shell.library("roles/interrupts/affinity") + shell.call("affinity_fits", [path, now, wanted])
    done = subprocess.run(interpreter.split(), input=script, capture_output=True, text=True, check=False)
    assert (done.returncode == 0, done.stderr) == (fits, "")
