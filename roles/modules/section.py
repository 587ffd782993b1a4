"""Section `modules`: kernel modules to load, their options, and those that are kept out."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from numaforge.lib.section import Section
from numaforge.lib.section_values import as_text, fits

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# modprobe.d has neither quotes nor escapes that every version reads: a space ends an option, "#" a line.
_OPTION = re.compile(r"[A-Za-z0-9_]+(=[A-Za-z0-9_.,:;/=@%+~!-]*)?")


ModuleName = Annotated[
    str,
    BeforeValidator(
        fits(_NAME, "is not the name of a kernel module; write for example ib_umad", quoted=True)
    ),
    AfterValidator(lambda name: name.replace("-", "_")),  # as the kernel has it below /sys/module
    as_text("kernel module", f"^{_NAME.pattern}$"),
]
_AN_OPTION = (
    "is not an option of a module; write one NAME=VALUE per entry, without spaces and quotes, for example "
    "NVreg_EnableStreamMemOPs=1"
)
Option = Annotated[
    str,
    BeforeValidator(fits(_OPTION, _AN_OPTION, quoted=True)),
    as_text("module option", f"^{_OPTION.pattern}$"),
]


class Modules(Section):
    """Kernel modules. Modules that are not named stay as they are on the host."""

    load: tuple[ModuleName, ...] = Field(
        default=(),
        description="Modules to load, now and at every boot.",
        examples=[["ib_umad", "nvidia_peermem"]],
    )
    options: dict[ModuleName, tuple[Option, ...]] = Field(
        default={},
        description="Options by module. Options that are not in effect yet need a reboot, and are verified "
        "after it.",
        examples=[{"nvidia": ["NVreg_EnableStreamMemOPs=1"]}],
    )
    blocked: tuple[ModuleName, ...] = Field(
        default=(),
        description="Modules that must never be loaded: in effect after a reboot, and verified then.",
        examples=[["nouveau"]],
    )

    @model_validator(mode="after")
    def _a_module_is_wanted_or_not(self) -> Self:
        both = sorted({*self.blocked} & {*self.load, *self.options})
        if both:
            raise ValueError(f"blocks {', '.join(both)} and asks for it too; keep one of them")
        for module, options in self.options.items():
            names = [option.partition("=")[0] for option in options]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"options.{module} has {', '.join(twice)} more than once; write it once")
        return self
