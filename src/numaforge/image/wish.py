"""The wanted image: the host data `numaforge_image`, and the plans of the machines that it names."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from numaforge.image.first_boot.settings import BootSettings
from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.given import read_json, read_text
from numaforge.lib.section import Section, validated
from numaforge.lib.section_values import fits
from numaforge.lib.strict_yaml import read_yaml
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.saved import ready_machine, ready_machines, saved_machine
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile

KEY = "numaforge_image"
CMDLINE = "/etc/numaforge/image/cmdline"
"""The kernel parameters that the image's machines need, which its root is compared with."""
_CMDLINE_HEADER = (
    "# Written by numaforge: who gives or needs a kernel parameter, and whether a reboot may add it."
)
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]+")
_VERSION = re.compile(r"[A-Za-z0-9.+~^:_*-]+")
_UNIT = re.compile(r"[A-Za-z0-9@:_.][A-Za-z0-9@:_.\\-]*\.(service|socket|timer|target|path|mount)")
_DRIVER = re.compile(
    r"(nvidia-(driver|kernel|open|headless|dkms)|cuda-drivers|a?kmod-nvidia|linux-(modules|objects)-nvidia)"
)


Package = Annotated[str, AfterValidator(fits(_PACKAGE, "is not the name of a package"))]
Version = Annotated[str, AfterValidator(fits(_VERSION, "is not a version, in which * stands for anything"))]
Unit = Annotated[str, AfterValidator(fits(_UNIT, "is not a unit, such as kubelet.service"))]


class Image(Section):
    """What every node made from the image has."""

    boot: BootSettings = Field(
        default=BootSettings(), description="What each node does before its kubelet starts."
    )
    profiles: tuple[str, ...] = Field(
        default=(),
        description="Files of profiles that the image has below /etc/numaforge/profiles.",
        examples=[["profiles/own.yaml"]],
    )
    machines: tuple[str, ...] = Field(
        default=(),
        description="Machines that the image is for, each a snapshot's file or a ready machine. The profile "
        "is planned for each while the image is made, and a node that is none of them is held.",
        examples=[["snapshots/gpu-01.json"]],
    )
    packages: dict[Package, Version] = Field(
        default={},
        description="Packages with their versions: installed, held, and kept from unattended upgrades.",
        examples=[{"kubelet": "1.36.1-*", "containerd": "*"}],
    )
    enable: tuple[Unit, ...] = Field(
        default=("kubelet.service",),
        description="Units that start at boot. None is started while the image is made.",
        examples=[["containerd.service", "kubelet.service"]],
    )
    kernel_cmdline: str = Field(
        default="",
        description="The kernel's command line that the builder gives the nodes where the root does not have "
        "it: of a unified kernel image that is made later, of a direct boot.",
        examples=["quiet intel_iommu=on"],
    )
    driver: Literal["image", "gpu-operator", "none"] = Field(
        default="none",
        description="Who owns the GPU driver on these nodes; two owners replace each other's modules.",
        examples=["image"],
    )

    sysprep: bool = Field(
        default=False,
        description="Remove what belongs to the machine that makes the image: SSH host keys, the machine-id, "
        "seeds, leases, instances of cloud-init, logs, caches, temporary files.",
        examples=[True],
    )

    @model_validator(mode="after")
    def _one_owner(self) -> "Image":
        drivers = sorted(name for name in self.packages if _DRIVER.match(name))
        if drivers and self.driver != "image":
            raise ValueError(
                f"driver is {self.driver}, and packages has {', '.join(drivers)}: name one owner"
            )
        return self


def read_image(data: object) -> Image:
    """Return the image of the host data, a mapping or its file; raise NumaforgeError with every mistake."""
    source, document = f"host data {KEY}", data
    if isinstance(data, (str, Path)):
        source, document = str(data), read_yaml(read_text(data), str(data))
    if not isinstance(document, Mapping):
        raise NumaforgeError(
            "is not a mapping", where=source, remedy="describe the image, such as boot: {profile: training}"
        )
    fields: dict[str, Any] = dict(document)
    return validated(Image, fields, source)


def profile_files(wish: Image) -> dict[str, Path]:
    """Return the files of the image's own profiles by name; raises NumaforgeError for one that is wrong."""
    files = {Path(file).stem: Path(file) for file in wish.profiles}
    for file in files.values():
        load_profile(file, images=files)
    return files


def machines_of(wish: Image) -> dict[str, NodeTopology]:
    return {Path(name_or_file).stem: _machine(name_or_file) for name_or_file in wish.machines}


def plans_of(wish: Image) -> dict[str, NodePlan]:
    """Return the plan of each machine, none without a profile; raises PlanError with the machine's name."""
    if wish.boot.profile is None:
        return {}
    profile = load_profile(wish.boot.profile, where=f"{KEY}: boot.profile", images=profile_files(wish))
    plans = {}
    for name, machine in machines_of(wish).items():
        try:
            plans[name] = plan_node(machine, profile)
        except PlanError as error:
            raise PlanError(
                f"the profile {profile.name} cannot be planned for {name}: {error.message}",
                where=error.where,
                remedy=error.remedy,
            ) from error
    return plans


def shared_parameters(plans: Mapping[str, NodePlan]) -> tuple[str, ...]:
    """Return the kernel parameters that every machine needs."""
    lines = [plan.kernel.cmdline for plan in plans.values()]
    return tuple(word for word in lines[0] if all(word in line for line in lines)) if lines else ()


def cmdline_text(plans: Mapping[str, NodePlan], given: str) -> str:
    """Return the text of CMDLINE; `given` is the line that the builder gives the kernel."""
    rows = [f"given - {word}" for word in given.split()]
    rows += [
        f"{name} {plan.kernel.reboot} {word}" for name, plan in plans.items() for word in plan.kernel.cmdline
    ]
    return "".join(f"{row}\n" for row in (_CMDLINE_HEADER, *rows))


def _machine(name_or_file: str) -> NodeTopology:
    if name_or_file in ready_machines():
        return ready_machine(name_or_file)
    try:
        return saved_machine(read_json(name_or_file))
    except NumaforgeError as error:
        raise error.at(name_or_file) from error
