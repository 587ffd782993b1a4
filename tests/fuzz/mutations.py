"""Seeded changes of texts and of JSON data, towards what parsers get wrong."""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**19, 1.5, -0.0),
    *("0", "-1", "1", "true", "false", "null", "٣", "²", "0-99999999999", "0-3,", "3-0", "../../etc/passwd"),
    *("1e999", "NaN", "8GB", "500M", "-1m", "%", "*"),
    *("", "9" * 30, "9" * 5000, "a" * 300, "a\nb", "\0", "Bob's Linux", "{{ x }}"),
    *([], [[]], [None], ["x"], [1, 2, 3], {}, {"": ""}, {"a": {"b": []}}, {"x": None}),
)

HOSTILE_TEXTS: tuple[str, ...] = (
    *("", "\n", "\0", "\t", " ", "- ", "? ", ", ", "&a ", "<<: *a", "\ufeff", "\u2028", "\x85", "\x1b[2J"),
    *(
        "'",
        '"',
        "\\",
        "#",
        ":",
        "[",
        "]",
        "{",
        "}",
        "*a",
        "0x",
        "null",
        "~",
        "NaN",
        ".inf",
        "1e999999999",
        "-1",
    ),
    *("2025-02-30", "٣", "²", "(null)", "<a>", "</a>", "=="),
    *("!!float x", "!!binary '%'", "---\n", "...\n", "%YAML 9.9\n", "| \n", "0-99999999999", "<!DOCTYPE x>"),
    *("9" * 5000, "-" * 100, "f," * 3000, "[" * 300, "{a: " * 300, "token" * 500),
)


def mutated_data(random: Random, document: Any) -> Any:
    """Return JSON data in which one to three places are something else."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return random.choice(HOSTILE_VALUES)
        holder, key = random.choice(places)
        _change(random, holder, key)
    return document


def mutated_text(random: Random, text: str) -> str:
    """Return a text in which one to three places are something else."""
    for _ in range(random.choice((1, 1, 2, 3))):
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.choice((0, 0, 1, 3, 20, 200)))
        kind = random.randrange(6)
        if kind == 0:
            text = text[:start] + random.choice(HOSTILE_TEXTS) + text[end:]
        elif kind == 1:
            text = text[:start] + text[end:]
        elif kind == 2:
            text = text[:end] + text[start:end] * random.choice((1, 3)) + text[end:]
        elif kind == 3:
            lines = text.split("\n")
            lines[random.randrange(len(lines))] = random.choice(HOSTILE_TEXTS)
            text = "\n".join(lines)
        elif kind == 4:
            lines = text.split("\n")
            place = random.randrange(len(lines))
            head, colon, _ = lines[place].partition(":")
            lines[place] = f"{head}{colon} {random.choice(HOSTILE_VALUES)}"
            text = "\n".join(lines)
        else:
            text = text[:start]
    return text


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    inside = [document]
    while inside:
        holder = inside.pop()
        items = list(holder.items()) if isinstance(holder, dict) else list(enumerate(holder))
        for key, value in items:
            yield holder, key
            if isinstance(value, (dict, list)):
                inside.append(value)


def _change(random: Random, holder: Any, key: Any) -> None:
    kind = random.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[str(random.choice(HOSTILE_VALUES))[:60]] = holder.pop(key)
    elif kind == 2 and isinstance(holder[key], str):
        holder[key] = mutated_text(random, holder[key])
    elif kind == 3 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    else:
        holder[key] = copy.deepcopy(random.choice(HOSTILE_VALUES))
