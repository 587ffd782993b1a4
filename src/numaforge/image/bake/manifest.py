"""The components of an image: our own manifest, and a CycloneDX bill of materials for scanners."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

from numaforge import __version__

BOM = "/etc/numaforge/image/bom.cdx.json"
_MADE = datetime(1980, 1, 1, tzinfo=UTC)  # fixed, so that equal images have equal bills


class Installed(NamedTuple):
    """A package of the distribution."""

    name: str
    version: str
    architecture: str


class RootKubelet(NamedTuple):
    """The kubelet in a root: the version that it prints itself, None where it prints none, and its origin.

    `source` is "package NAME VERSION", or "no package".
    """

    version: str | None
    sha256: str
    path: str
    source: str


def manifest(
    release: str,
    installed: Sequence[Installed],
    files: Mapping[str, str],
    *,
    kubelet: RootKubelet | None,
    digest: str,
    driver: str,
    held: Iterable[str],
) -> str:
    """Return the manifest; `files` has the SHA-256 of each file that numaforge wrote, by path."""
    document = {
        "numaforge": {"version": __version__, "packages": digest},
        "release": release,
        "driver": {"owner": driver},
        "held": sorted(held),
        "kubelet": kubelet
        and {"version": kubelet.version, "source": kubelet.source, "file": {kubelet.path: kubelet.sha256}},
        "files": dict(sorted(files.items())),
        "packages": {
            package.name: package.version for package in sorted(installed, key=lambda package: package.name)
        },
    }
    return json.dumps(document, indent=2) + "\n"


def bill(release: str, kind: str, installed: Sequence[Installed], libraries: Mapping[str, str]) -> str | None:
    """Return the bill of materials in CycloneDX 1.6 (`kind`: deb or rpm); None without the library for it."""
    try:
        from cyclonedx.model.bom import Bom
        from cyclonedx.model.component import Component, ComponentType
        from cyclonedx.output.json import JsonV1Dot6
        from packageurl import PackageURL
    except ImportError:
        return None
    name, _, version = release.partition(" ")
    system = Component(
        name=name or "linux", version=version, type=ComponentType.OPERATING_SYSTEM, bom_ref="system"
    )

    def library(name: str, version: str, reference: str, purl: PackageURL) -> Component:
        return Component(name=name, version=version, type=ComponentType.LIBRARY, bom_ref=reference, purl=purl)

    components = []
    for package in installed:
        qualifiers = {"arch": package.architecture, "distro": f"{name}-{version}"}
        purl = PackageURL(kind, name, package.name, package.version, qualifiers)
        components.append(library(package.name, package.version, f"{kind}/{package.name}", purl))
    for title, release_of in {**libraries, "numaforge": __version__}.items():
        purl = PackageURL("pypi", None, title.lower().replace("_", "-"), release_of)
        components.append(library(title, release_of, f"pypi/{title}", purl))
    bom = Bom(components=components)
    bom.metadata.component = system
    bom.register_dependency(system, components)
    bom.metadata.timestamp = _MADE
    text = "\n".join(f"{component.name} {component.version}" for component in components)
    bom.serial_number = uuid5(NAMESPACE_URL, f"numaforge:image:{release}:{text}")
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
