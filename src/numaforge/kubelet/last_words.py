"""The error with which a kubelet ended, in its output."""

import ast
import json
import re
from itertools import takewhile

_FATAL = ("command failed", "Failed to start ContainerManager")
"""What a kubelet logs last; other goroutines may still log something behind it."""

_RECORD = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\] (?P<text>.*)")
_ERROR = re.compile(r'err=(?P<error>"(?:[^"\\]|\\.)*")')


def last_words(output: str) -> str | None:
    """Return the error with which a kubelet ended, from its output; None where it names none."""
    lines = output.splitlines()
    errors: list[tuple[str, str]] = []
    for number, line in enumerate(lines):
        if line.startswith("panic: "):
            return "\n".join(takewhile(bool, lines[number:]))
        if line.startswith("Error: "):
            return "\n".join(lines[number:]).removeprefix("Error: ")
        try:
            if line.startswith("{"):
                record = json.loads(line)
                message, error = record.get("msg", ""), record.get("err")
            else:
                message, error = _text_error(lines, number)
        except (ValueError, SyntaxError):  # a line that is cut off, or no line of a log
            continue
        if error is not None:
            errors.append((message, error))
    fatal = [error for message, error in errors if message in _FATAL]
    if not errors:
        return None
    return fatal[-1] if fatal else errors[-1][1]


def _text_error(lines: list[str], number: int) -> tuple[str, str | None]:
    record = _RECORD.fullmatch(lines[number])
    if not record or lines[number][0] not in "EF":
        return "", None
    text = record["text"]
    message = json.JSONDecoder().raw_decode(text)[0] if text.startswith('"') else text
    if text.endswith("err=<"):
        # klog writes an error of several lines as a block of indented lines.
        end = lines.index(" >", number)
        return message, "\n".join(line.removeprefix("\t") for line in lines[number + 1 : end])
    found = _ERROR.search(text)
    return message, ast.literal_eval(found["error"]) if found else text
