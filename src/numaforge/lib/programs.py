"""The programs that every host needs, by package; each role adds its own."""

from collections.abc import Iterable, Mapping

_COREUTILS = (
    "base64 cat chmod chown cp cut date dd df dirname env head id ln ls mkdir mv od paste readlink rm rmdir "
    "sha256sum sleep sort stat sync tail tee timeout touch tr uname uniq wc"
)
SYSTEMD = ("systemctl", "systemd-notify", "systemd-run")
"""Programs that are used where systemd runs."""
_CAPTURED = "cat find grep id ls od readlink sed stat tr uname wc xargs"
CAPTURED_WITH = tuple(_CAPTURED.split())
"""Programs without which a capture would be wrong, not merely incomplete: it is refused."""
CHANGED_WITH: Mapping[str, tuple[str, ...]] = {
    "coreutils": tuple(_COREUTILS.split()),
    "awk": ("awk",),
    "findutils": ("find", "xargs"),
    "grep": ("grep",),
    "sed": ("sed",),
    "util-linux": ("flock", "mount"),
}
"""Those of a capture and a transaction, by package."""

_MISSING = "missing "


def missing(answer: Iterable[str]) -> list[str]:
    """Return the programs in the output of `tell_missing` in programs.sh, among other lines."""
    return [line.removeprefix(_MISSING) for line in answer if line.startswith(_MISSING)]
