"""The answer of a script on a host: named parts, and a last line that shows that it is complete.

    NUMAFORGE answers TOKEN        the script begins; what was printed before is a banner of the login
    LINES                          lines of no part
    NUMAFORGE TOKEN part NAME      a part begins, and the one before ends
    LINES
    NUMAFORGE TOKEN ended STATUS   the script's exit status: without this line the answer is cut off

NUMAFORGE is our name in lower case. The token is random, so that no content looks like these lines. Before
the script begins, a line `NUMAFORGE packed` announces that the rest is gzip in base64. The receiver of an
answer limits its size (`numaforge.lib.bounded`).
"""

import base64
import secrets
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numaforge.lib import shell
from numaforge.lib.bounded import unpacked
from numaforge.lib.errors import HostError, HostUnreachableError

_OURS = "numaforge "


def asking(script_text: str) -> str:
    """Return a script whose answer `Answer.of` reads; half a script does nothing: it is in brackets."""
    token = secrets.token_hex(8)
    return (
        f"ANSWER='{_OURS}{token}'\n{shell.library('lib/framing')}echo '{_OURS}answers {token}'\n"
        f"(\n{script_text}\n) < /dev/null\n"
        'ended=$?\nprintf \'\\n%s ended %s\\n\' "$ANSWER" "$ended"\n[ "$ended" = 0 ] || exit "$ended"\n'
    )


@dataclass(frozen=True)
class Answer:
    """A complete answer: the lines of each part, "" for lines outside parts, and the script's exit status."""

    parts: Mapping[str, tuple[str, ...]]
    status: int = 0

    @classmethod
    def of(cls, output: "Output") -> "Answer":
        """Read an answer; raises HostUnreachableError for a truncated one: the host may be going down."""
        if isinstance(output, Answer):
            return output
        lines = iter(output.split("\n") if isinstance(output, str) else output)
        parts: dict[str, list[str]] = {}
        part: list[str] = []
        status, prefix = "", _OURS
        while (line := next(lines, None)) is not None:
            kind, _, rest = (
                line.removeprefix(prefix).partition(" ") if line.startswith(prefix) else ("", "", "")
            )
            if kind not in ("answers", "part", "ended", "packed"):
                part.append(line)
                continue
            if part and not part[-1]:  # it ends a line without a newline
                del part[-1]
            status = rest if kind == "ended" else ""
            if kind == "packed":
                lines = iter(_unpacked("".join(lines)))
            elif kind == "part":
                part = parts.setdefault(rest, [])
            else:
                prefix = f"{_OURS}{rest} " if kind == "answers" and rest else _OURS
                part = parts.setdefault("", []) if kind == "answers" else []
        if not parts:
            raise HostUnreachableError(
                "the host did not run the script",
                remedy="it needs a POSIX sh; see what `sh -c 'echo hello'` prints on that host",
            )
        if not status.isdecimal():
            raise _cut_off()
        return cls({name: tuple(lines) for name, lines in parts.items()}, int(status))

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines outside parts."""
        return self.parts.get("", ())

    def part(self, name: str) -> tuple[str, ...]:
        """Return the lines of a part; raises HostUnreachableError without that part."""
        if name not in self.parts:
            raise _cut_off()
        return self.parts[name]


Output = Answer | str | Iterable[str]
"""An answer, or other output of a host: one text, or lines without their newlines."""


def _cut_off() -> HostUnreachableError:
    return HostUnreachableError("the host's answer is cut off", remedy="run again")


def _unpacked(text: str) -> list[str]:
    """Return the lines that a host packed; for a truncated text, the readable ones."""
    try:
        raw = unpacked(base64.b64decode(text[: len(text) // 4 * 4]))
    except (ValueError, zlib.error) as error:
        raise HostError(f"the host's answer cannot be unpacked: {error}", remedy="run again") from error
    return raw.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
