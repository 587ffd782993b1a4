"""Validation of image pulls and image garbage collection."""

import re

from numaforge.kubelet.startup.validation.refusals import CompleteConfig, Refusals, between, invalid
from numaforge.kubelet_minors.values.gotext import quoted

_PULL_POLICIES = ("NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify")


def image_thresholds(config: CompleteConfig) -> Refusals:
    high, low = "imageGCHighThresholdPercent", "imageGCLowThresholdPercent"
    yield from between(high, "--image-gc-high-threshold", 0, 100)(config)
    yield from between(low, "--image-gc-low-threshold", 0, 100)(config)
    if config.number(low) >= config.number(high):
        yield invalid("NF116", "image thresholds", low=config.number(low), high=config.number(high))


def image_age_gate(config: CompleteConfig) -> Refusals:
    if config.minor < 29:
        return
    if config.duration("imageMaximumGCAge").nanoseconds and not config.gate("ImageMaximumGCAge"):
        name = "ImageMaximumGCAge" if config.minor == 29 else "imageMaximumGCAge"
        yield invalid("NF115", "image age", name=name)


def image_ages(config: CompleteConfig) -> Refusals:
    if config.minor < 29:
        return
    oldest, youngest = config.duration("imageMaximumGCAge"), config.duration("imageMinimumGCAge")
    if config.minor >= 36 and youngest.nanoseconds < 0:
        yield invalid("NF110", "negative duration", name="imageMinimumGCAge", value=youngest)
    if oldest.nanoseconds < 0:
        yield invalid("NF110", "negative duration", name="imageMaximumGCAge", value=oldest)
    if 0 < oldest.nanoseconds <= youngest.nanoseconds:
        yield invalid("NF116", "image ages", oldest=oldest, youngest=youngest)


def max_images(config: CompleteConfig) -> Refusals:
    if (value := config.number("nodeStatusMaxImages")) < -1:
        yield invalid("NF110", "images", value=value)


def parallel_pulls(config: CompleteConfig) -> Refusals:
    pulls = config.settings.get("maxParallelImagePulls")
    if pulls is None:
        return
    if pulls < 1:
        yield invalid("NF110", "parallel pulls", pulls=pulls)
    if config.flag("serializeImagePulls") and pulls > 1:
        yield invalid("NF116", "parallel pulls")


def image_credentials(config: CompleteConfig) -> Refusals:
    if config.minor < 33:
        return
    field, allowed = "imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"
    policy, patterns = config.text(field), config.items(allowed)
    if not config.gate("KubeletEnsureSecretPulledImages"):
        for name in (field, allowed):
            if config.settings.get(name):
                yield invalid("NF115", "pulled images", name=name)
        return
    if policy not in _PULL_POLICIES:
        yield invalid("NF111", "pull policy", policy=quoted(policy))
    if patterns and policy != "NeverVerifyAllowlistedImages":
        yield invalid("NF116", "allowlist")
        return
    complaints = (pattern_complaint(pattern, config.minor) for pattern in patterns)
    if complaint := next(filter(None, complaints), None):
        yield invalid("NF111", "image pattern", complaint=complaint)


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
