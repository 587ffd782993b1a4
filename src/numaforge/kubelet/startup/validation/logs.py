"""Validation of the kubelet's own log and of container logs."""

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from numaforge.kubelet.findings import Fault, fault
from numaforge.kubelet.startup.validation.refusals import SECOND, CompleteConfig, Refusals, invalid
from numaforge.kubelet_minors.fields import WrittenAsNumber
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.lib.quantity import Quantity

FIRST_MINOR_CHECKING_FLUSHES = 35
"""Earlier kubelets accept any logging.flushFrequency, and panic when flushing starts."""
_LARGEST_VERBOSITY = 2**31 - 1
_FIRST_MINOR_QUOTING_JSON = 34
"""Earlier kubelets quote an unsigned number in Go's syntax."""


def logging(config: CompleteConfig) -> Refusals:
    logging = config.settings.get("logging") or {}
    flush = logging.get("flushFrequency", "5s")
    if config.minor >= FIRST_MINOR_CHECKING_FLUSHES and parse_duration(flush).nanoseconds <= 0:
        shown = parse_duration(flush).nanoseconds if isinstance(flush, WrittenAsNumber) else f'"{flush}"'
        yield _field_error("flushFrequency", f"Invalid value: {shown}: Must be greater than zero")
    log_format = logging.get("format", "text")
    if log_format not in ("text", "json"):
        yield _field_error("format", f"Invalid value: {quoted(log_format)}: Unsupported log format")
    elif log_format == "json" and not config.gate("LoggingBetaOptions"):
        yield _field_error("format", "Forbidden: Log format json is disabled, see LoggingBetaOptions feature")
    yield from _verbosity("verbosity", logging.get("verbosity", 0), config.minor)
    yield from _log_modules(logging.get("vmodule") or [], log_format, config.minor)
    yield from _log_options(config, logging.get("options") or {})


def _verbosity(field: str, verbosity: int, minor: int) -> Refusals:
    if verbosity > _LARGEST_VERBOSITY:
        shown = verbosity if minor >= _FIRST_MINOR_QUOTING_JSON else hex(verbosity)
        yield _field_error(field, f"Invalid value: {shown}: Must be <= {_LARGEST_VERBOSITY}")


def _log_modules(modules: list[Mapping[str, Any]], log_format: str, minor: int) -> Refusals:
    if modules and log_format not in ("", "text"):
        yield _field_error("vmodule", "Forbidden: Only supported for text log format")
    for index, module in enumerate(modules):
        pattern, field = module.get("filePattern", ""), f"vmodule[{index}]"
        if not pattern:
            yield _field_error(field, "Required value: File pattern must not be empty")
        if "=" in pattern or "," in pattern:
            yield _field_error(
                field, f"Invalid value: {quoted(pattern)}: File pattern must not contain equal sign or comma"
            )
        yield from _verbosity(field, module.get("verbosity", 0), minor)


def _log_options(config: CompleteConfig, options: Mapping[str, Any]) -> Refusals:
    if config.gate("LoggingAlphaOptions"):
        return
    for kind in ("text", "json"):
        routing = options.get(kind) or {}
        forbidden = "Forbidden: Feature LoggingAlphaOptions is disabled"
        if routing.get("splitStream"):
            yield _field_error(f"options.{kind}.splitStream", forbidden)
        if Quantity.parse(routing.get("infoBufferSize", "0")).ceiling():
            yield _field_error(f"options.{kind}.infoBufferSize", forbidden)


def _field_error(field: str, complaint: str) -> Fault:
    return fault("NF118", field=field, complaint=complaint)


def log_query(config: CompleteConfig) -> Refusals:
    if not config.flag("enableSystemLogQuery"):
        return
    if not config.gate("NodeLogQuery"):
        option = "enableSystemLogQuery" if config.minor >= 35 else "enableSystemLogHandler"
        yield invalid("NF115", "log query", option=option)
    if not config.flag("enableSystemLogHandler"):
        yield invalid("NF116", "log query")


def container_logs(config: CompleteConfig) -> Refusals:
    if config.minor < 30:
        return
    if config.number("containerLogMaxWorkers") < 1:
        yield invalid("NF110", "log workers")
    if config.duration("containerLogMonitorInterval").nanoseconds < 3 * SECOND:
        yield invalid("NF110", "log interval")
    if config.minor >= 33 and config.number("containerLogMaxFiles") <= 1:
        yield invalid("NF110", "log files")


def pod_logs(config: CompleteConfig) -> Refusals:
    if config.minor < 30:
        return
    path = config.text("podLogsDir")
    # POSIX keeps two leading slashes, Go's filepath.Clean does not.
    cleaned = re.sub(r"^//", "/", posixpath.normpath(path))
    complaints = {
        "podLogsDir was not specified": not path,
        f"pod logs path {quoted(path)} must be absolute path": not path.startswith("/"),
        f"pod logs path {quoted(path)} must be normalized": path != cleaned,
        f"pod logs path {quoted(path)} mut contains ASCII characters only": not path.isascii(),
    }
    for complaint in (complaint for complaint, applies in complaints.items() if applies):
        yield invalid("NF111", "pod logs", complaint=complaint)
