"""Generate what differs by Kubernetes minor from the kubelet's own sources: `python -m lab.minors`.

Feature gates, their dependencies, flags, fields and policy options are tables in Go. This reads them in each
release's modules and writes `src/numaforge/kubelet_minors/tables.json`. A new minor is a line in RELEASES.
The modules are looked for in Go's module cache; `--download` lets Go fetch what is not there.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.paths import REPOSITORY

RELEASES = {
    28: "28.15",
    29: "29.15",
    30: "30.14",
    31: "31.0",
    32: "32.2",
    33: "33.13",
    34: "34.4",
    35: "35.4",
    36: "36.3",
    37: "37.2",
}
"""The release that is read for each minor, without the `1.` of Kubernetes and the `0.` of its libraries."""

TABLES = REPOSITORY / "src/numaforge/kubelet_minors/tables.json"
STAGING = (
    "apiextensions-apiserver",
    "apiserver",
    "client-go",
    "component-base",
    "controller-manager",
    "kubelet",
)

History = dict[int, str]
"""An entry of a minor: a gate's state, a flag's type, a field's type."""

_TOKEN = re.compile(r'("(?:\\.|[^"\\\n])*"|`[^`]*`)|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NAME = re.compile(r'\b(\w+)\s+(?:(?:\w+\.)?Feature|string)?\s*=\s*(?:\w+\.Feature\()?"([^"]+)"')
_GATE_MAP = re.compile(r"map\[(?:\w+\.)?Feature\](?:\w+\.)?(?:FeatureSpec|VersionedSpecs)\s*\{")
_DEPENDENCY_MAP = re.compile(r"map\[featuregate\.Feature\]\[\]featuregate\.Feature\s*\{")
_ENTRY = re.compile(r"(?:\w+\.)?(\w+)\s*:\s*\{")
_VERSION = re.compile(r'Version:\s*version\.(?:MustParse\("1\.(\d+)"\)|MajorMinor\(1,\s*(\d+)\))')
_STAGE = re.compile(r"PreRelease:\s*(?:\w+\.)?(\w+)")
_SPECS = re.compile(r"^\t(?:\w+\.)?(\w+): \{\n(.*?)^\t\},$", re.MULTILINE | re.DOTALL)
_REMOVAL = re.compile(r"//.*\bremoved?(?: completely)? in v?1\.(\d+)")
_NEED = re.compile(r"(\w+)\s*\)?\s*(?:,|$)")
_STRUCT = re.compile(r"^type (\w+) struct \{", re.MULTILINE)
_ALIAS = re.compile(r"^type (\w+) (string)$", re.MULTILINE)
_FIELD = re.compile(r'^\s*(\w+)\s+(\S+)\s+`json:"(\w+)', re.MULTILINE)
_INLINE = re.compile(r'^\s*(\w+)\s+`json:"(?:,inline)?"', re.MULTILINE)
_FLAG = re.compile(r'\bfs\.(\w*)Var\((?P<target>.*?),\s*"(?P<name>[a-z0-9-]+)"', re.DOTALL)
_TARGET = re.compile(r"&c\.([\w.]+)")
_VALUE = re.compile(r"New(\w+)\(|(\w+)\{|^&(\w+)$")
_OPTION_SET = re.compile(
    r"\b(alpha|beta|stable)Options\s*=\s*sets\.New(?:String|\[string\])\((.*?)\)", re.DOTALL
)

# How the value of a flag parses, by the name of its Go type.
_KINDS = {
    "String": "string",
    "Bool": "bool",
    "Int32": "int32",
    "Int64": "int64",
    "Duration": "duration",
    "StringSlice": "list",
    "MapStringString": "pairs",
    "MapStringStringNoSplit": "pair",
    "LangleSeparatedMapStringString": "less-than",
    "MapStringBool": "gates",
    "ColonSeparatedMultimapStringString": "headers",
    "IPVar": "ip",
    "ReservedMemoryVar": "reserved-memory",
    "RegisterWithTaintsVar": "taints",
    "bindableNodeLabels": "labels",
}
# Prefixes of types as the kubelet's messages name their packages.
_PACKAGES = {"logsapi": "v1", "tracingapi": "v1", "corev1": "v1"}


class SourceError(Exception):
    """A module is missing, or its source is not written as expected."""


@dataclass(frozen=True)
class Release:
    """The modules of one Kubernetes release in a module cache."""

    minor: int
    number: str
    cache: Path

    def module(self, name: str) -> Path:
        """Return a module's folder: `kubernetes`, or one of its libraries."""
        return self.cache / "k8s.io" / f"{name}@v{1 if name == 'kubernetes' else 0}.{self.number}"

    @property
    def missing(self) -> list[str]:
        """The modules that are not there, as `go mod download` takes them."""
        return [
            f"k8s.io/{self.module(name).name}"
            for name in ("kubernetes", *STAGING)
            if not self.module(name).is_dir()
        ]

    def source(self, module: str, *paths: str) -> str:
        """Return Go files of a module, without comments; one that this release does not have is empty."""
        return _TOKEN.sub(lambda match: match[1] or "", self._written(module, *paths))

    def _written(self, module: str, *paths: str) -> str:
        files = [self.module(module) / path for path in paths]
        return "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())

    @cached_property
    def features(self) -> str:
        """All files that declare feature gates of a kubelet."""
        return "\n".join(
            (
                self.source("apiextensions-apiserver", "pkg/features/kube_features.go"),
                self.source("apiserver", "pkg/features/kube_features.go"),
                self.source("client-go", "features/known_features.go"),
                self.source(
                    "component-base",
                    "featuregate/feature_gate.go",
                    "logs/api/v1/kube_features.go",
                    "metrics/features/kube_features.go",
                    "zpages/features/kube_features.go",
                ),
                self.source("controller-manager", "pkg/features/kube_features.go"),
                self.source(
                    "kubernetes", "pkg/features/kube_features.go", "pkg/features/versioned_kube_features.go"
                ),
            )
        )

    def gates(self) -> dict[str, str]:
        """Return each gate's maturity, default and lock: `beta on`, `ga on locked`."""
        names = dict(_NAME.findall(self.features))
        return {
            names[name]: _gate_state(specs, self.minor)
            for found in _GATE_MAP.finditer(self.features)
            for name, specs in _entries(_braced(self.features, found.end()))
        }

    def dependencies(self) -> dict[str, str]:
        """Return the gates that a gate needs, where it needs any: `GangScheduling GenericWorkload`."""
        names = dict(_NAME.findall(self.features))
        needs = {
            names[name]: " ".join(sorted(names[need] for need in _NEED.findall(body)))
            for found in _DEPENDENCY_MAP.finditer(self.features)
            for name, body in _entries(_braced(self.features, found.end()))
        }
        return {name: needed for name, needed in needs.items() if needed}

    def removals(self) -> dict[str, int]:
        """Return the minors for which a comment announces that a gate goes: `// remove in 1.38`."""
        names = dict(_NAME.findall(self.features))
        text = self._written("kubernetes", "pkg/features/kube_features.go")
        announced = {name: _REMOVAL.findall(specs) for name, specs in _SPECS.findall(text)}
        return {names[name]: int(minors[-1]) for name, minors in announced.items() if minors}

    @cached_property
    def _structs(self) -> dict[str, dict[str, tuple[str, str]]]:
        """The structs of the configuration: Go field -> (JSON field, Go type)."""
        packages = {
            "v1beta1": self.source("kubelet", "config/v1beta1/types.go"),
            "v1": self.source("component-base", "logs/api/v1/types.go", "tracing/api/v1/types.go"),
        }
        bodies = {
            f"{package}.{found[1]}": _braced(text, found.end())
            for package, text in packages.items()
            for found in _STRUCT.finditer(text)
        }
        return {struct: _struct_fields(struct, bodies) for struct in bodies}

    def fields(self) -> dict[str, str]:
        """Return the Go type of every field of the configuration: `v1beta1.UserNamespaces.idsPerPod`."""
        reached: dict[str, str] = {}
        wanted = ["v1beta1.KubeletConfiguration"]
        while wanted:
            struct = wanted.pop()
            for name, go_type in self._structs[struct].values():
                if (
                    reached.setdefault(f"{struct}.{name}", go_type) == go_type
                    and _plain(go_type) in self._structs
                ):
                    wanted.append(_plain(go_type))
        return reached

    def aliases(self) -> dict[str, str]:
        """Return the named types of text that the configuration has."""
        used = {_plain(go_type) for go_type in self.fields().values()}
        text = self.source("kubelet", "config/v1beta1/types.go")
        return {
            f"v1beta1.{name}": go_type for name, go_type in _ALIAS.findall(text) if f"v1beta1.{name}" in used
        }

    def flags(self) -> dict[str, str]:
        """Return how each flag parses, and the field that it sets: `pairs kubeReserved`, `string`."""
        folder = "cmd/kubelet/app/options"
        text = self.source(
            "kubernetes",
            f"{folder}/options.go",
            f"{folder}/container_runtime.go",
            "pkg/kubelet/config/flags.go",
        )
        return {found["name"]: self._flag(found) for found in _FLAG.finditer(text)}

    def _flag(self, found: re.Match[str]) -> str:
        value = _VALUE.search(found["target"].strip())
        go_type = found[1] or next(filter(None, value.groups() if value else ()), "")
        if go_type not in _KINDS:
            raise SourceError(f"1.{self.number}: --{found['name']} has a type that is not known: {found[0]}")
        target = _TARGET.search(found["target"])
        kind = _KINDS[go_type]
        return f"{kind} {self._json_path(target[1])}" if target else kind

    def _json_path(self, go_path: str) -> str:
        struct, path = "v1beta1.KubeletConfiguration", []
        for step in go_path.removesuffix(".Duration").split("."):
            exact = {name.lower(): field for name, field in self._structs[struct].items()}
            name, go_type = exact[step.lower()]
            path.append(name)
            struct = _plain(go_type)
        return ".".join(path)

    def options(self, manager: str) -> dict[str, str]:
        """Return the maturity of a manager's policy options: `beta`."""
        text = self.source("kubernetes", f"pkg/kubelet/cm/{manager}/policy_options.go")
        names = dict(_NAME.findall(text))
        return {
            names[option]: stage
            for stage, options in _OPTION_SET.findall(text)
            for option in re.findall(r"\w+", options)
        }


def _struct_fields(struct: str, bodies: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return a struct's fields by their Go names, those of embedded structs among them."""
    package = struct.partition(".")[0]
    fields = {
        go_name: (name, _qualified(go_type, package))
        for go_name, go_type, name in _FIELD.findall(bodies[struct])
    }
    for embedded in _INLINE.findall(bodies[struct]):
        fields |= _struct_fields(f"{package}.{embedded}", bodies)
    return fields


def _gate_state(specs: str, minor: int) -> str:
    """Return the state of the last spec that is not newer than a minor."""
    reached = "prealpha off"
    for spec in re.findall(r"\{([^{}]*)\}", specs) or [specs]:
        since = _VERSION.search(spec)
        stage = _STAGE.search(spec)
        if since and int(since[1] or since[2]) > minor:
            continue
        maturity = stage[1].lower() if stage else "ga"
        default = "on" if re.search(r"\bDefault:\s*true", spec) else "off"
        locked = " locked" if re.search(r"LockToDefault:\s*true", spec) else ""
        reached = f"{maturity} {default}{locked}"
    return reached


def _entries(block: str) -> Iterator[tuple[str, str]]:
    """Yield the keys and bodies of a composite literal's map."""
    position = 0
    while found := _ENTRY.search(block, position):
        body = _braced(block, found.end())
        yield found[1], body
        position = found.end() + len(body)


def _braced(text: str, start: int) -> str:
    """Return what stands before the brace that closes the one before `start`."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if not depth:
            return text[start:position]
    raise SourceError(f"a brace is not closed: {text[start : start + 60]!r}")


def _qualified(go_type: str, package: str) -> str:
    prefix, name = re.fullmatch(r"((?:\*|\[\]|map\[string\])*)(\S+)", go_type).groups()  # type: ignore[union-attr]
    if "." in name:
        of, _, bare = name.partition(".")
        return f"{prefix}{_PACKAGES.get(of, of)}.{bare}"
    return f"{prefix}{package}.{name}" if name[:1].isupper() else go_type


def _plain(go_type: str) -> str:
    return re.sub(r"^(\*|\[\])+", "", go_type)


def history(releases: list[Release], read: Callable[[Release], Mapping[str, str]]) -> dict[str, str]:
    """Return the changes of each name by minor: `28 beta on, 33 ga on locked, 36 gone`."""
    by_minor = {release.minor: read(release) for release in releases}
    names = sorted({name for states in by_minor.values() for name in states})
    return {
        name: _changes({minor: states.get(name, "gone") for minor, states in by_minor.items()})
        for name in names
    }


def _changes(states: History) -> str:
    changes: list[str] = []
    before = "gone"
    for minor, state in states.items():
        if state != before:
            changes.append(f"{minor} {state}")
        before = state
    return ", ".join(changes)


def tables(releases: list[Release]) -> str:
    """Return the text of the file that holds the tables."""
    aliases: dict[str, str] = {}
    for release in releases:
        aliases |= release.aliases()
    document = {
        "releases": {release.minor: f"1.{release.number}" for release in releases},
        "gates": history(releases, Release.gates),
        "removals": releases[-1].removals(),
        "dependencies": history(releases, Release.dependencies),
        "flags": history(releases, Release.flags),
        "fields": history(releases, Release.fields),
        "aliases": dict(sorted(aliases.items())),
        "cpu_options": history(releases, lambda release: release.options("cpumanager")),
        "topology_options": history(releases, lambda release: release.options("topologymanager")),
    }
    return f"{json.dumps(document, indent=1)}\n"


def module_cache() -> Path:
    """Return the folder in which Go keeps modules. Raises SourceError where there is no Go."""
    try:
        answer = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SourceError(f"Go did not name its module cache: {error}") from error
    return Path(answer.stdout.strip())


def releases(cache: Path) -> list[Release]:
    """Return the releases that the tables are read from."""
    return [Release(minor, number, cache) for minor, number in sorted(RELEASES.items())]


def main(arguments: list[str] | None = None) -> int:
    """Write the tables, or say with --check whether they are current."""
    parser = argparse.ArgumentParser(prog="python -m lab.minors", description=__doc__)
    parser.add_argument("--download", action="store_true", help="fetch the modules that are missing with Go")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the tables differ")
    chosen = parser.parse_args(arguments)
    found = releases(module_cache())
    missing = [module for release in found for module in release.missing]
    if missing and chosen.download:
        subprocess.run(["go", "mod", "download", *missing], cwd="/", check=True)
    elif missing:
        print(f"missing: {' '.join(missing)}; run with --download", file=sys.stderr)
        return 2
    text = tables(found)
    if chosen.check:
        return int(text != TABLES.read_text(encoding="utf-8"))
    TABLES.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
