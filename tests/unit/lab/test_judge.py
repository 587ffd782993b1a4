"""What a kubelet's output says about its end."""

from __future__ import annotations

import pytest

from lab.judge import last_words

STARTING = 'I1121 13:34:16.468500     699 server.go:545] "Kubelet version" kubeletVersion="v1.36.3"\n'
FAILED = 'E1121 13:34:16.468500     699 run.go:72] "command failed" err='
OUTPUTS = {
    "the last error is the verdict": (
        f'{STARTING}{FAILED}"failed to run Kubelet: unknown policy: \\"Static\\""\n',
        'failed to run Kubelet: unknown policy: "Static"',
    ),
    "an error of several lines keeps its lines": (
        f"{FAILED}<\n\tfailed: Object 'Kind' is missing in 'a: b\n\t'\n >\n",
        "failed: Object 'Kind' is missing in 'a: b\n'",
    ),
    "what others log behind the fatal error does not count": (
        f'{FAILED}"no"\nE1121 13:34:17.468500     699 kubelet.go:1] "Skipping" err="later"\n',
        "no",
    ),
    "a complaint before logging begins": ("Error: unknown flag: --x\n", "unknown flag: --x"),
    "a panic ends where its trace begins": (
        "panic: failed to merge: [one, two]\n\ngoroutine 1 [running]:\nmain.main()\n",
        "panic: failed to merge: [one, two]",
    ),
    "logs as JSON": ('{"ts":1.0,"msg":"command failed","err":"no \\"way\\""}\n', 'no "way"'),
}


@pytest.mark.parametrize(("output", "error"), OUTPUTS.values(), ids=OUTPUTS)
def test_last_words(output: str, error: str) -> None:
    assert last_words(output) == error


def test_an_end_without_an_error_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="without an error"):
        last_words("I1121 13:34:16.468500     699 server.go:545] hello\n")
