"""Image names as preloadedImagesVerificationAllowlist accepts them.

Source: getAllowlistImagePattern in pkg/kubelet/images/pullmanager/image_pull_policies.go, and
github.com/distribution/reference.
"""

from __future__ import annotations

import re

_WILDCARD = "/*"
_FAILED = "failed to parse as an image name"
_LONGEST_NAME = 255
_DEFAULT_REGISTRY = "docker.io"
_FIRST_MINOR_WITH_SHORT_NAMES = 36
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG = r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(rf"(?P<name>(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::{_TAG})?(?:@{_DIGEST})?")


def pattern_complaint(pattern: str, minor: int) -> str | None:
    """Return the message with which a kubelet of this minor rejects a pattern, or None."""
    if pattern != pattern.strip():
        return f"leading/trailing spaces are not allowed: {pattern}"
    name = pattern.removesuffix("*") if pattern.endswith(_WILDCARD) else pattern
    if not name:
        return f"the supplied pattern is too short: {pattern}"
    if "*" in name:
        return f"not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}"
    if pattern.endswith(_WILDCARD):
        return "at least registry hostname is required" if name == "/" else None
    if minor >= _FIRST_MINOR_WITH_SHORT_NAMES:
        return _reference_complaint(name, name)
    normalized = _normalized(name)
    remote = normalized.partition("/")[2].partition(":")[0]
    if remote != remote.lower():
        return f"{_FAILED}: invalid reference format: repository name ({remote}) must be lowercase"
    return _reference_complaint(name, normalized)


def _normalized(name: str) -> str:
    """Return a name with its registry, as ParseNormalizedNamed completes it: `nginx` is on docker.io."""
    first, slash, rest = name.partition("/")
    if not slash or not (set(first) & set(".:") or first == "localhost" or first != first.lower()):
        first, rest = _DEFAULT_REGISTRY, name
    if first == f"index.{_DEFAULT_REGISTRY}":
        first = _DEFAULT_REGISTRY
    official = first == _DEFAULT_REGISTRY and "/" not in rest
    return f"{first}/library/{rest}" if official else f"{first}/{rest}"


def _reference_complaint(name: str, normalized: str) -> str | None:
    reference = _REFERENCE.fullmatch(normalized)
    if reference is None:
        if _REFERENCE.fullmatch(normalized.lower()):
            return f"{_FAILED}: repository name must be lowercase"
        return f"{_FAILED}: invalid reference format"
    if len(reference["name"]) > _LONGEST_NAME:
        return f"{_FAILED}: repository name must not be more than {_LONGEST_NAME} characters"
    if reference["name"] != name:
        return f"neither tag nor digest is accepted in an image reference: {name}"
    return None
