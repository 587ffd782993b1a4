"""Every code block of README and docs/ is run, held by a test of its page, or says why it cannot run here.

A block of a new kind, a command without a reason and a reason without a command each fail.
"""

import ast
import json
import re
import shlex
import shutil
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import click
import jinja2
import pytest
import yaml

from lab.paths import REPOSITORY
from numaforge import cli
from tests.machines.files import stored

PAGES = {
    str(page.relative_to(REPOSITORY)): page.read_text(encoding="utf-8")
    for page in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
}
HELD: Mapping[str, str] = {
    "docs/amd.md": "tests/unit/report/test_slices.py",
    "docs/admit.md": "tests/unit/commands/test_admit_page.py",
    "docs/check.md": "tests/unit/kubelet/test_startup_page.py",
    "docs/links.md": "tests/unit/test_docs_links.py",
    "docs/read-a-plan.md": "tests/unit/test_docs_names.py",
    "docs/refused.md": "tests/unit/test_docs_refused.py",
}
"""The pages that show what is printed without its command (`text`), and the test that compares it."""

ELSEWHERE: Mapping[str, str] = {
    r"pipx|uv|python3 -m venv|podman": "needs an index of packages or images; tests/wheel installs the wheel",
    r"make|python (bench|docs)/|NUMAFORGE_KUBELETS=": "test_docs_commands.py: the verb or script exists",
    r"NUMAFORGE_CHECKOUTS=\S+": "needs other projects' repositories",
    r"git clone": "needs other projects' repositories",
    r"pyinfra": "needs hosts; tests/wheel and tests/lab run those of README and `init`",
    r"numaforge (apply|doctor|verify|rollout)": "needs hosts; tests/wheel, tests/ssh and tests/lab run them",
    r"numaforge measure": "needs hosts; tests/ssh/test_measure.py",
    r"numaforge boot": "plans the machine that it runs on; tests/ssh/test_first_boot.py",
    r"numaforge init|cd": "tests/wheel runs it as printed",
    r"numaforge render (gpu-01|--root)": "needs a host or its root; tests/ssh/test_render.py",
    r"export NUMAFORGE_TEMPLATES=": "tests/unit/commands/test_render.py sets it",
    r"numaforge capture": "needs hosts; tests/ssh runs it",
    r"numaforge diff before.json root@": "needs a host",
    r"numaforge (diff|plan) \S+ (--profile )?/srv/root": "needs the root of an image; test_diff.py has one",
    r"numaforge completion": "writes to the home folder; tests/unit/commands/test_screen.py prints each",
    r"numaforge plan --profile profiles/gpu.yaml": "reads what the line before it has written; "
    "tests/unit/planning/test_convert.py plans with each",
    r"numaforge kubelet check --live": "needs a node with a kubelet; tests/lab runs it",
    r"numaforge (topology|plan|draw)( --matrix| --profile training( -o node.svg)?)?$": "looks at this "
    "machine; tests/wheel runs it",
    r"kubectl": "needs a cluster",
    r"helm": "needs a cluster and charts; tests/unit/fleet/monitoring reads the values that it is given",
    r"numaforge cluster verify": "needs a cluster; tests/lab/test_schedulers.py",
    r"ssh-keyscan": "needs a host; tests/ssh/test_host_keys.py",
    r"systemctl|journalctl|cat|ls|cp|rm|chroot|sh|python3 /var/lib/numaforge|pytest": "needs a node",
}
"""What begins a command line that does not run here, and why."""

OUTPUT = r"(pending:|FAILED|/proc/|\d+ hosts:|  |sum of|=|allocatable_memory|each host:|its log|gpu-\d|\d+ )"
"""What begins a line of a block that shows what is printed."""


def fenced(text: str) -> Iterator[tuple[str, str]]:
    for found in re.finditer(r"^( *)```(\S+)[^\n]*\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE):
        yield found[2], textwrap.dedent(found[3])


def indented(text: str) -> list[str]:
    """Return the indented blocks outside of fences and lists."""
    bare = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"(?:(?<=\n\n)|\A)((?:(?: {4,}[^\n]+)?\n)+)", bare)
    return [block for found in blocks if (block := re.sub(r"(?m)^ {4}", "", found).strip("\n"))]


def lines() -> list[tuple[str, str]]:
    """Return the command lines of all indented blocks that are neither Python, YAML nor output."""
    return [
        (page, line.strip())
        for page, text in PAGES.items()
        for block in indented(text)
        if not is_python(block) and not re.match(OUTPUT, block) and "affinity:" not in block
        for line in block.replace("\\\n", "").splitlines()
        if line.strip()
    ]


def is_python(block: str) -> bool:
    try:
        ast.parse(block)
    except SyntaxError:
        return False
    return "numaforge " not in block and ("import" in block or "(" in block)


def reason(line: str) -> str | None:
    bare = line.partition(" #")[0].strip()
    return next(
        (why for begin, why in ELSEWHERE.items() if re.match(rf"(?:{begin})(?:\b|$|(?=\s))", bare)), None
    )


RUN = [(page, line) for page, line in lines() if reason(line) is None]
KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        pytest.param(kind, block, id=f"{page}-{number}-{kind}")
        for page, text in PAGES.items()
        for number, (kind, block) in enumerate(fenced(text))
    ],
)
def test_data_and_code_blocks_are_readable(kind, block):
    readers = {
        "yaml": lambda text: list(yaml.safe_load_all(text)),
        "json": json.loads,
        "python": ast.parse,
        "console": lambda text: re.fullmatch(r"\$ [^\n]+\n.*", text, re.DOTALL),
        "text": str.strip,
        "diff": lambda text: all(line[0] in " +-@" for line in text.splitlines()),
        "jinja": jinja2.Environment(autoescape=True).parse,
        "sh": lambda text: subprocess.run(["sh", "-n"], input=text, text=True, check=True),
    }
    assert readers[kind](block)


@pytest.mark.parametrize(
    "page", [page for page, text in PAGES.items() if "text" in {k for k, _ in fenced(text)}]
)
def test_answer_without_its_command_is_checked_by_a_test_of_its_page(page):
    assert Path(page).name in (REPOSITORY / HELD[page]).read_text()


def test_every_skip_reason_belongs_to_a_command():
    said = [reason(line) for _, line in lines()]
    assert {why for why in ELSEWHERE.values() if why not in said} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_code_block_is_recognised(page):
    text = PAGES[page]
    assert 2 * len([*fenced(text)]) == len(re.findall(r"^ *```", text, re.MULTILINE))
    bare = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside = [line.strip() for line in re.findall(r"(?<=\n\n)    +[^\n]+", bare)]
    found = [line.strip() for block in indented(text) for line in block.splitlines()]
    assert {*outside} <= {*found}


def test_commands_without_skip_reason_run_here():
    assert {line.split()[0] for _, line in RUN} == {"numaforge"}
    assert len(RUN) > 10


@pytest.mark.parametrize("line", sorted({line for _, line in lines() if line.startswith("numaforge ")}))
def test_numaforge_accepts_documented_arguments(line):
    words = shlex.split(line, comments=True)
    words = [*takewhile(lambda word: word not in ("&&", ">"), words)]
    group: click.Command = cli.numaforge
    context = group.make_context("numaforge", words[1:])
    while isinstance(group, click.Group):
        name, below, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        group, context = below, below.make_context(name, rest, parent=context)


_BLOCK = r"^```yaml(?:(?: \w+)?\n# | )(\S+\.yaml)\n(.*?)^```$"
FILES = {page: dict(re.findall(_BLOCK, text, re.DOTALL | re.MULTILINE)) for page, text in PAGES.items()}
"""The files that each page shows, by name."""

_CAPTURED = "fleet/gpu-01.snapshot.json"  # what an earlier step of the page has written
OWN: Mapping[str, tuple[str, ...]] = {
    "docs/command-line.md": ("before.json", "gpu-1.json"),
    "docs/draw.md": ("plan.json",),
    "docs/from-ansible.md": ("hosts.yml",),
    "docs/from-openshift.md": (_CAPTURED, "profiles/gpu.yaml"),
    "docs/provision.md": (_CAPTURED,),
}
"""The files of a page that a reader makes of hosts, with a command that the page shows, or writes."""


def commands(text: str) -> list[str]:
    """Return every command of numaforge on a page: in blocks, after a prompt and within a sentence."""
    return re.findall(r"(?:^ {4}|^\$ |`)(numaforge [a-z][^`\n]*)", text, re.MULTILINE)


def read_and_written(command: str) -> tuple[set[str], set[str]]:
    """Return the JSON and YAML files that a command reads, and those that it writes."""
    words = shlex.split(command.partition(" #")[0])
    after = dict(zip(words[1:], words, strict=False))
    named = {word for word in words if re.search(r"\.(json|ya?ml)$", word)}
    written = {word for word in named if after[word] in ("-o", "--to", ">")}
    return named - written, written


@pytest.mark.parametrize("page", PAGES)
def test_every_file_named_by_a_command_is_provided(page):
    found = [read_and_written(command) for command in commands(PAGES[page])]
    written = {name for _, written in found for name in written}
    saved = re.findall(r"[Ss]aved?\s+(?:an\s+example\s+)?as\s+`([^`]+)`", PAGES[page])
    had = {*written, *saved, *FILES[page], *OWN.get(page, ())}
    assert {name for read, _ in found for name in read} - had == set()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a reader has it: empty but for what is captured of hosts."""
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet/gpu-01.snapshot.json").write_text(stored("nvidia-dgx-h100").snapshot().to_json())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("page", "line"), [pytest.param(*one, id=one[1]) for one in RUN])
def test_a_command_runs_as_printed(page, line, folder, capsys):
    for name, text in FILES[page].items():
        (folder / name).write_text(text)
    if page == "docs/check.md":
        (folder / "kubelet.yaml").write_text(KUBELET)
    code = cli.run(shlex.split(line, comments=True)[1:])
    said = capsys.readouterr()
    assert code in (0, 1), said.err
    assert said.out or "wrote" in said.err


NAMED: Mapping[str, Sequence[str]] = {"docs/rdma-device-plugin.md": ("hyphen.json", "typo.json")}
"""How the commands of a page call its blocks of JSON; those of YAML say their names themselves."""
WIDE: Mapping[str, str] = {"docs/links.md": "120"}
WRITTEN = ("docs/profiles.md", "docs/schemas.md")
"""Pages whose command writes or reads a reader's own file: test_json_schema.py does what they show."""


@pytest.mark.parametrize(
    ("page", "command", "expected"),
    [
        pytest.param(page, *block[2:].split("\n", 1), id=f"{page}: {block.partition(chr(10))[0]}")
        for page, text in PAGES.items()
        for kind, block in fenced(text)
        if kind == "console" and page not in WRITTEN
    ],
)
def test_printed_answer_matches_real_output(page, command, expected, folder, monkeypatch, capsys):
    configs = [block for kind, block in fenced(PAGES[page]) if kind == "json"]
    for name, text in {**FILES[page], **dict(zip(NAMED.get(page, ()), configs, strict=False))}.items():
        (folder / name).write_text(text)
    shutil.copy(REPOSITORY / "docs/mig-config.yaml", folder)
    monkeypatch.setenv("COLUMNS", WIDE.get(page, "80"))
    cli.run(shlex.split(command)[1:])
    said = capsys.readouterr()
    answers = [
        "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        for text in (said.out, said.out + said.err)
    ]
    shown = re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)  # a line of dots stands for what is left out
    if len(shown) == 1:
        assert expected in answers
    assert [part for part in shown if part not in answers[-1]] == []
