"""Classes with less compilation, for a fast start of the process.

Python 3.11 and 3.12 compile six methods of each dataclass one by one: a fifth of a second of CPU for 300
classes. A command never calls most of them, and makes only a few objects of most classes: their fields are
set one by one before an `__init__` is compiled. Python 3.13 compiles the methods of a class together, and is
left alone. typing compiles the annotation of each field; most annotations are alike, and most of pydantic's
own are never read: here each text is compiled once, when it is read.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from types import CodeType, SimpleNamespace
from typing import Any, cast

_Method = Callable[..., Any]
_Init = Callable[[Any, Sequence[Any], Mapping[str, Any]], bool]

_FEW_OBJECTS = 20
"""How many objects of a class are made before its `__init__` is compiled, which takes as long as about 40."""


def begin() -> None:
    """Make classes that this process defines from now on compile methods and annotations on demand."""
    names: Any = typing
    if "compile" not in vars(names):  # typing finds them before Python's own
        names.compile, names.eval = _read_later, _read_now
    library: Any = dataclasses
    create = getattr(library, "_create_fn", None)
    if create is None or create.__module__ == __name__:
        return
    create_init = library._init_fn

    def create_when_called(name: str, *given: Any, **how: Any) -> _Method:
        compiled = partial(create, name, *given, **how)
        if name == "__init__":  # the code for `create_init`, which is called on demand
            return cast(_Method, compiled())
        return _when_called(name, compiled)

    def init_when_called(fields: Sequence[Any], positional: Sequence[Any], *how: Any) -> _Method:
        compiled = partial(create_init, fields, positional, *how)
        if not _plain(fields, positional):
            return cast(_Method, compiled())
        _, frozen, has_post_init, *_ = how
        few = partial(_init_of_few, fields, positional, frozen=frozen, has_post_init=has_post_init)
        return _when_called("__init__", compiled, few)

    library._create_fn, library._init_fn = create_when_called, init_when_called
    library._MODULE_IDENTIFIER_RE = SimpleNamespace(match=cache(library._MODULE_IDENTIFIER_RE.match))


def _read_later(text: str, *_: Any) -> str:
    """Return the text of an annotation in place of its compiled form."""
    return text


def _read_now(text: str | CodeType, *names: Any) -> Any:
    """Return an annotation's value; raises SyntaxError, as typing does, unless it is an expression."""
    try:
        code = _compiled(text) if isinstance(text, str) else text  # the others were defined before `begin`
    except SyntaxError:
        raise SyntaxError(f"Forward reference must be an expression -- got {text!r}") from None
    return eval(code, *names)  # noqa: S307 (typing evaluates it)


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<string>", "eval")


def _plain(fields: Iterable[Any], positional: Iterable[Any]) -> bool:
    """Return whether every field is a plain argument, with the defaults last."""
    missing: Any = dataclasses.MISSING
    optional = [each.default is not missing or each.default_factory is not missing for each in positional]
    library: Any = dataclasses
    return optional == sorted(optional) and all(
        each.init and each._field_type is library._FIELD for each in fields
    )


def _init_of_few(
    fields: Iterable[Any], positional: Iterable[Any], *, frozen: bool, has_post_init: bool
) -> _Init:
    """Return a function that sets the fields of a few objects from arguments; False if it cannot."""
    missing: Any = dataclasses.MISSING
    rows = [(each.name, each.default, each.default_factory) for each in fields]
    required = {name for name, default, factory in rows if default is missing and factory is missing}
    known = {name for name, _, _ in rows}
    in_order = [each.name for each in positional]
    assign = object.__setattr__ if frozen else setattr
    few = iter(range(_FEW_OBJECTS))

    def init(self: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
        values = dict(zip(in_order, arguments, strict=False), **named)
        right = len(values) == len(arguments) + len(named) and required <= values.keys() <= known
        if not right or next(few, None) is None:  # the compiled `__init__` raises the error
            return False
        for name, default, factory in rows:
            if name in values:
                assign(self, name, values[name])
            else:
                assign(self, name, default if factory is missing else factory())
        if has_post_init:
            self.__post_init__()
        return True

    return init


def _when_called(
    name: str, create: Callable[[], _Method], create_few: Callable[[], _Init] | None = None
) -> _Method:
    """Return a stand-in for a method, until it is called or the function of `create_few` cannot serve."""
    made: list[_Method] = []
    few: list[_Init] = []

    def method(self: Any, /, *arguments: Any, **named: Any) -> Any:
        if not made:
            if create_few and not few:
                few.append(create_few())
            if few and few[0](self, arguments, named):
                return None
            made.append(create())
            made[0].__qualname__ = method.__qualname__
            _replace(type(self), name, method, made[0])
        return made[0](self, *arguments, **named)

    method.__name__ = method.__qualname__ = name
    return method


def _replace(kind: type, name: str, method: _Method, real: _Method) -> None:
    """Replace the stand-in in its class with the compiled method, unless something wraps it."""
    for each in kind.__mro__:
        if each.__dict__.get(name) is method:
            setattr(each, name, real)
