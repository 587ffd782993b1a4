"""The Containerfile, step by step in Debian's own root, and what the image then does as each user."""

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from lab.roots import UnavailableError, build
from numaforge import __version__
from tests.fixtures.wheel import build as build_package
from tests.ssh.sandbox import PATH, cannot_run

CONTAINERFILE = REPOSITORY / "docs/Containerfile"
KUBECTL = '#!/bin/sh\necho "$@"\n'
"""What the build's user puts into dist/: here a program that says how it was called."""
RUN = """
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
    cd "$2/root"
    mount -t proc proc proc
    mount --rbind /dev dev
    mount --bind /etc/resolv.conf etc/resolv.conf
    : > run/certificates
    mount --bind "$2/certificates" run/certificates
    exec chroot --userspec "$3" . env --ignore-environment $4 sh -c "$5"
"""
"""A step: devices, names and certificates are those of this machine; of the last it gets a copy."""
CERTIFICATES = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))


@dataclass(frozen=True)
class Image:
    """A root in the making: `folder` holds what the steps have written over the base."""

    base: Path
    folder: Path
    environment: dict[str, str]
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()

    def run(self, script: str, user: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = " ".join(f"{name}={value}" for name, value in {**self.environment, **environment}.items())
        words = ("sh", str(self.base), str(self.folder), user, variables, script)
        return subprocess.run(
            ["unshare", "--mount", "sh", "-euc", RUN, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"(?m)^#.*\n", "", CONTAINERFILE.read_text()).replace("\\\n", "")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def carried_out(image: Image, context: Path) -> Image:
    """Carry out the instructions as a builder would."""
    of_network = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    of_network |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), "/run/certificates")
    user, environment, entrypoint = "0:0", {"PATH": PATH}, ()
    for instruction, words in instructions():
        if instruction == "RUN":
            made = Image(image.base, image.folder, environment)
            done = made.run(words, user, **of_network, DEBIAN_FRONTEND="noninteractive")
            assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        elif instruction == "COPY":
            *sources, target = [word for word in words.split() if not word.startswith("--")]
            mode = next((int(word[8:], 8) for word in words.split() if word.startswith("--chmod=")), 0o644)
            for source in sources:
                (file,) = context.glob(source)
                copy = image.folder / "upper" / target.strip("/")
                copy = copy / file.name if target.endswith("/") else copy
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
                copy.chmod(mode)
        elif instruction == "ENV":
            environment |= dict([words.split("=", 1)])
        elif instruction == "USER":
            user = words
        elif instruction == "ENTRYPOINT":
            entrypoint = tuple(json.loads(words))
        else:
            assert instruction in ("ARG", "FROM"), instruction
    return Image(image.base, image.folder, environment, user, entrypoint)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    if reason := cannot_run():
        pytest.skip(reason)
    try:
        base = build("trixie")
    except UnavailableError as error:
        pytest.skip(str(error))
    context = tmp_path_factory.mktemp("context")
    build_package("wheel", REPOSITORY, context / "dist")
    (context / "dist/kubectl").write_text(KUBECTL)
    (context / "src/numaforge").mkdir(parents=True)
    shutil.copy(REPOSITORY / "src/numaforge/requirements.lock", context / "src/numaforge")
    folder = tmp_path_factory.mktemp("image")
    for name in ("upper", "work", "root"):
        (folder / name).mkdir()
    shutil.copy(CERTIFICATES, folder / "certificates")
    return carried_out(Image(base, folder, {}), context)


@pytest.mark.parametrize("user", ["65532:65532", "0:0"], ids=["as-its-user", "as-root"])
def test_image_runs_commands_as_its_user_and_as_root(image: Image, user: str) -> None:
    def answer(*words: str) -> str:
        done = image.run(shlex.join(words), user, HOME="/tmp")
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert image.user == "65532:65532"
    assert answer(*image.entrypoint, "--version") == f"numaforge {__version__}\n"
    assert "GPU" in answer(*image.entrypoint, "plan", "dgx-h100", "--profile", "training", "-o", "json")
    assert answer("kubectl", "version") == "version\n"
    assert answer("ssh", "-G", "gpu-01").startswith("host gpu-01\n")
    assert answer("id", "-u").strip() == user.partition(":")[0]


def test_doctor_finds_every_requirement_in_the_image(image: Image) -> None:
    done = image.run(shlex.join([*image.entrypoint, "doctor", "-o", "json"]), image.user, HOME="/tmp")
    checks = json.loads(done.stdout)
    assert not [check for check in str(checks).split("'") if "is missing" in check], done.stdout
