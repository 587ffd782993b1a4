"""Find a profile by name or path, merge it over its parents, and validate it: errors name their field."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from numaforge.lib.errors import NumaforgeError, ProfileError
from numaforge.lib.given import read_text
from numaforge.lib.mistakes import shown
from numaforge.lib.resources import profile_dir
from numaforge.lib.section import validated
from numaforge.lib.strict_yaml import MOST_MIB, read_yaml
from numaforge.planning.profile import NodeProfile

# Mappings that take exactly one key: a merge of two would have two.
_CHOICES = (("cpus", "reserved"),)

# With the resource engine dra the kubelet's managers have nothing to do: what a parent says of them goes.
_OF_MANAGERS = (
    "cpu_manager_policy",
    "cpu_manager_options",
    "topology_manager_policy",
    "topology_manager_scope",
    "topology_manager_options",
    "memory_manager_policy",
)

# `state` of a section that takes nothing from the profile below.
_ABSENT = "absent"

# Keys that reveal another kind of document, and its kind.
_OTHERS = {"kind": "a {kind}", "decisions": "a plan", "packages": "a topology"}

_BEGIN = "begin a profile with a key such as `extends: training` or `cpus:`"

# Keys of a profile that are not settings: the profile it extends, and where an editor finds the schema.
_READ_HERE = ("extends", "$schema")

Own = Mapping[str, Path]
"""An image's profiles, by name."""
_NO_OWN: Own = {}


def load_profile(
    source: str | Path | Mapping[str, Any], *, where: str | None = None, images: Own = _NO_OWN
) -> NodeProfile:
    """Return the profile named `source`: a ready profile, a YAML file, or the mapping itself.

    `where` locates a name or a mapping, for errors. `images` are an image's profiles, preferred to ready ones
    of the same name. A profile that `extends` another, by name or as a file next to it, is merged over it:
    mappings key by key, everything else replaced; a section with `state: absent` removes the inherited one. A
    null section or key counts as left out, also in the parent.

    Raises ProfileError with every mistake.
    """
    if isinstance(source, str) and source and not is_path(source):
        if not images:
            return _ready(source, where)
        source = images.get(source, source)
    return _load(source, where, images)


@cache
def _ready(name: str, where: str | None) -> NodeProfile:
    """Return a ready profile, read once: its file is part of the package."""
    return _load(name, where, _NO_OWN)


def _load(source: str | Path | Mapping[str, Any], where: str | None, images: Own) -> NodeProfile:
    where_read, document = _read(source, where, images)
    folder = Path(where_read).parent if isinstance(source, (str, Path)) else Path()
    merged = _without_nulls(_extend(document, where_read, folder, (_key(source),), _own_of(source, images)))
    merged.setdefault("name", _unnamed(source, document))
    _read_mig_parted(merged, where_read, folder)
    return validated(NodeProfile, merged, where_read, also_known=_READ_HERE, error=ProfileError)


def ready_profiles() -> tuple[str, ...]:
    """Return the names of the ready profiles that are for a purpose, sorted."""
    return tuple(sorted(path.stem for path in profile_dir().glob("*.yaml")))


def machine_profiles() -> tuple[str, ...]:
    """Return the names of the ready profiles that are for a kind of machine, sorted."""
    return tuple(sorted(path.stem for path in (profile_dir() / "machines").glob("*.yaml")))


def named_profiles(images: Iterable[str] = ()) -> str:
    """Return all names of profiles as messages list them: an image's `own`, for a purpose, for a machine."""
    purposes = ", ".join([*images, *ready_profiles()])
    return f"{purposes}; for a kind of machine {', '.join(machine_profiles())}"


def _own_of(source: str | Path | Mapping[str, Any], images: Own) -> Own:
    """Return the profiles of an image that a profile can extend by name: a ready one extends ready ones."""
    return _NO_OWN if isinstance(source, str) and not is_path(source) else images


def _read(
    source: str | Path | Mapping[str, Any], where: str | None, images: Own
) -> tuple[str, dict[str, Any]]:
    if isinstance(source, Mapping):
        return where or "profile", dict(source)
    if not isinstance(source, (str, Path)) or not str(source):
        raise ProfileError(
            f"{shown(source)} names no profile",
            where=where,
            remedy=f"name one of {', '.join(ready_profiles())}, a YAML file, or write a mapping",
        )
    if isinstance(source, Path) or is_path(source):
        return str(source), _read_file(Path(source), where)
    return _read_ready(source, where, images)


def is_path(source: str) -> bool:
    """Whether a profile is named by its path, not the name of a ready one."""
    return "/" in source or source.endswith((".yaml", ".yml", ".json"))


def _read_ready(name: str, where: str | None, images: Own) -> tuple[str, dict[str, Any]]:
    machines = machine_profiles()
    if name not in (*ready_profiles(), *machines):
        nearest = get_close_matches(name, (*images, *ready_profiles(), *machines), n=1)
        raise ProfileError(
            f"there is no ready profile {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else ""),
            where=where,
            remedy=f"name one of {named_profiles(images)}; or the path of a YAML file",
        )
    folder = profile_dir() / "machines" if name in machines else profile_dir()
    path = folder / f"{name}.yaml"
    return f"profile {name}", _read_file(path, where)


def _read_file(path: Path, where: str | None) -> dict[str, Any]:
    try:
        text = read_text(path, most_mib=MOST_MIB)
    except NumaforgeError as error:
        is_relative = where and not path.exists() and not path.is_absolute()
        path_hint = f"; {path} is looked for in {Path.cwd()}" if is_relative else ""
        raise ProfileError(
            f"the profile {path} {error.message}",
            where=where,
            remedy=error.remedy or f"name a YAML file, or a ready profile: {named_profiles()}{path_hint}",
        ) from error
    document = read_yaml(text, str(path), ProfileError, octal=False)
    if document is None:
        raise ProfileError(
            "is empty: it names no purpose of the node",
            where=str(path),
            remedy="write at least one key, such as `extends: training`; `{}` takes every default",
        )
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise ProfileError(f"a profile is a mapping, not a {kind}", where=str(path), remedy=_BEGIN)
    for key, form in _OTHERS.items():
        if key in document:
            kind = form.format(kind=document[key])
            raise ProfileError(f"is {kind}, not a profile", where=str(path), remedy=_BEGIN)
    return document


def _read_mig_parted(profile: dict[str, Any], file: str, folder: Path) -> None:
    """Replace the path of a mig-parted file, which is relative to `folder`, with its content."""
    section = profile.get("mig")
    if not isinstance(section, Mapping) or not isinstance(path := section.get("mig_parted"), str):
        return
    where = f"{file}: mig.mig_parted"
    try:
        text = read_text(folder / path, most_mib=MOST_MIB)
    except NumaforgeError as error:
        raise ProfileError(
            f"{folder / path} {error.message}",
            where=where,
            remedy="name a file in mig-parted's form, relative to the profile's file, or write its content",
        ) from error
    document = read_yaml(text, f"{where}: {folder / path}", ProfileError)
    profile["mig"] = {**section, "mig_parted": document}


def _key(source: str | Path | Mapping[str, Any]) -> str:
    """Return a key, equal for all names of one profile."""
    is_file = isinstance(source, Path) or (isinstance(source, str) and is_path(source))
    return str(Path(str(source)).resolve()) if is_file else str(source)


def _extend(
    document: dict[str, Any], file: str, folder: Path, visited: tuple[str, ...], images: Own
) -> dict[str, Any]:
    """Return a profile merged over its parent; a path there is relative to `folder`.

    A name is one of the `images`, an image's own; in the profile of that name, the ready one.
    """
    values = {key: value for key, value in document.items() if key not in _READ_HERE}
    parent = document.get("extends")
    if parent is None:
        return values
    if not isinstance(parent, str):
        raise ProfileError(
            f"{parent!r} is not a profile's name",
            where=f"{file}: extends",
            remedy=f"name one of {named_profiles(images)}; or a file, relative to this one, "
            "such as ./own.yaml",
        )
    source: Path | str = Path(folder, parent) if is_path(parent) else parent
    if parent in images and _key(images[parent]) != visited[-1]:
        source = images[parent]
    if _key(source) in visited:
        raise ProfileError(f"{parent} goes in a circle", where=f"{file}: extends")
    parent_place, parent_document = _read(source, f"{file}: extends", images)
    folder_of_parent = source.parent if isinstance(source, Path) else Path()
    inherited = _extend(
        parent_document, parent_place, folder_of_parent, (*visited, _key(source)), _own_of(source, images)
    )
    _read_mig_parted(inherited, parent_place, folder_of_parent)
    for personal in ("name", "description"):
        inherited.pop(personal, None)
    _drop_managers(inherited, values)
    if isinstance(inherited.get("sources"), Mapping):
        inherited["sources"] = _sources_of_inherited(inherited["sources"], values)
    return _merge(inherited, values)


def _drop_managers(inherited: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Remove what a profile's parent says of the kubelet's managers, with the sources."""
    above, below = values.get("kubelet"), inherited.get("kubelet")
    by_claims = isinstance(above, Mapping) and above.get("resource_engine") == "dra"
    if not by_claims or not isinstance(below, Mapping):
        return
    inherited["kubelet"] = {name: value for name, value in below.items() if name not in _OF_MANAGERS}
    if isinstance(sources := inherited.get("sources"), Mapping):
        prefixes = tuple(f"kubelet.{name}" for name in _OF_MANAGERS)
        kept = {path: source for path, source in sources.items() if not path.startswith(prefixes)}
        inherited["sources"] = kept


def _sources_of_inherited(sources: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    """Remove the sources of replaced values: a source belongs to one value."""
    choices = [".".join(choice) + "." for choice in _CHOICES]
    paths = [
        f"{path.removesuffix('.state') if value == _ABSENT else path}." for path, value in leaves(values)
    ]
    replaced = {next((choice for choice in choices if path.startswith(choice)), path) for path in paths}
    return {
        path: source
        for path, source in sources.items()
        if not any(f"{path}.".startswith(prefix) or prefix.startswith(f"{path}.") for prefix in replaced)
    }


def leaves(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of a profile by its dotted path; a list is one value."""
    for key, value in document.items():
        path_of_key = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path_of_key)
        else:
            yield path_of_key, value


def _merge(below: Mapping[str, Any], above: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        inherited, key_path = merged.get(key), (*path, key)
        if not isinstance(inherited, Mapping) or not isinstance(value, Mapping) or key_path in _CHOICES:
            merged[key] = value
        else:
            merged[key] = value if value.get("state") == _ABSENT else _merge(inherited, value, key_path)
    return merged


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item) for item in value]
    return value


def _unnamed(source: str | Path | Mapping[str, Any], document: Mapping[str, Any]) -> str:
    if not isinstance(source, Mapping):
        return Path(source).stem
    return f"{document['extends']}, adjusted" if document.get("extends") else "unnamed"
