"""The pages of findings have every rule, field and answer, and what they show is real."""

import pytest

from numaforge.cli import run


def test_every_gpu_and_nic_is_in_the_matrix(capsys):
    run(["audit", "--only", "gpudirect", "dgx-h100-acs", "-v"])
    blocks = capsys.readouterr().out.split("\n\n")
    [matrix] = [block.splitlines() for block in blocks if "mlx5_0" in block.splitlines()[0]]
    assert len(matrix) == 9
    assert matrix[1].split()[:5] == ["GPU0", "PIX", "no", "NODE", "no"]


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("machine", ["dgx-h100", "dgx-h100-acs", "gb200", "mi300x"])
def test_rail_table_fits_the_screen(monkeypatch, capsys, machine, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    run(["audit", "--only", "gpudirect", machine])
    table, reasons = capsys.readouterr().out.split("\n\n")[:2]
    assert max(map(len, table.splitlines())) <= columns
    if table.endswith("unknown"):
        assert reasons.startswith("GPU[0-")
        assert max(map(len, reasons.splitlines())) <= columns
