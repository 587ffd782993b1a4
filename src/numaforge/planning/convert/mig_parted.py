"""A configuration of mig-parted: the profile's own section reads its form."""

from collections.abc import Mapping
from typing import Any

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.section import validated
from numaforge.planning.convert.draft import Draft
from numaforge.planning.convert.rows import table
from numaforge.roles.mig.section import MigConfigFile

ROWS = table("mig-parted")


def convert(draft: Draft, document: Mapping[str, Any], name: str | None, file: str) -> None:
    """Convert a file of mig-parted; `name` is the config that the profile takes. Raises NumaforgeError."""
    draft.take(document, ROWS)
    if draft.mistakes:
        return
    configs = validated(MigConfigFile, document, file).mig_configs
    if name is None and len(configs) > 1:
        raise NumaforgeError(
            "has several configs, and a node is cut by one",
            where=file,
            remedy=f"give --name, one of {', '.join(configs)}",
        )
    chosen = name if name is not None else next(iter(configs))
    if chosen not in configs:
        raise NumaforgeError(f"has no config {chosen!r}", where=file, remedy=f"it has {', '.join(configs)}")
    draft.put("name", chosen, "mig-configs")
    draft.put("mig.mig_parted", dict(document), "mig-configs")
    draft.put("mig.config", chosen, f"mig-configs.{chosen}")
    draft.differs(
        "mig-configs",
        "every config stays in the profile, and mig.config names the one of this node; numaforge creates "
        "instances with placements of its own and leaves alone what is as planned. mig.in_use: drain lets "
        "it drain a node whose instances are in use",
        "mig.config",
    )
