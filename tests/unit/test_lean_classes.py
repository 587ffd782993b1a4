"""Dataclasses that compile their methods when they are called: they are what they would be otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLASSES = """
import copy, dataclasses, functools, inspect, pickle, sys
from dataclasses import FrozenInstanceError, InitVar, dataclass, field, replace
from typing import Any, ClassVar

@dataclass(frozen=True)
class Point:
    "A place."
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list, compare=False)

@dataclass(frozen=True)
class Named(Point):
    name: str = "origin"

    @functools.cached_property
    def shown(self) -> str:
        return f"{self.name} at {self.x}"

@dataclass(order=True, slots=True)
class Version:
    major: int
    minor: int = 0

    def __post_init__(self) -> None:
        self.minor += 1

@dataclass(kw_only=True)
class Loop:
    inner: Any = None

@dataclass(eq=False)
class Own:
    x: int

    def __repr__(self) -> str:
        return "own"

@dataclass
class Drawn:
    size: int
    factor: InitVar[int]
    area: int = field(init=False)
    sides: ClassVar[int] = 4

    def __post_init__(self, factor: int) -> None:
        self.area = factor * self.size**2

@dataclass(frozen=True)
class Counted:
    self: str
    count: int = field(default=1, init=False)

def out_of_order():
    @dataclass
    class Wrong:
        x: int = 0
        y: int

def tried(action):
    try:
        return action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

loop = Loop()
loop.inner = loop
one, two = Named(1, 2, name="a"), Named(1, 2, ["t"], "a")
"""
SAID = """
for each in (
    one, Point(1), Version(1), loop, Own(1), one == two, one == Point(1, 2), one != 1, hash(one) == hash(two),
    Version(1, 5) < Version(2), sorted([Version(3), Version(1)]), one.shown, replace(one, x=7),
    dataclasses.astuple(two), dataclasses.asdict(two), copy.deepcopy(two), pickle.loads(pickle.dumps(two)),
    tried(lambda: setattr(one, "x", 3)), tried(lambda: delattr(one, "x")), tried(lambda: hash(Version(1))),
    tried(lambda: Named()), tried(lambda: Named(1, z=2)), tried(lambda: Loop(1)), {one: 1}[two],
    tried(lambda: Own(1, 2)), tried(lambda: Own(1, x=2)), tried(lambda: Named(y=2)),
    Point(1).tags is Point(2).tags, Drawn(3, factor=2), tried(lambda: Drawn(3)), vars(Counted("a")),
    tried(lambda: Counted("a", 2)), tried(out_of_order),
    tried(lambda: Version(1) < 3), Named.__init__.__qualname__, Point.__eq__.__qualname__,
    Point.__match_args__, Version.__slots__, Point.__doc__, one.__eq__(3), object.__eq__(one, 3),
    [f.name for f in dataclasses.fields(Named)],
):
    print(each)
"""


def said(*before: str) -> str:
    program = "\n".join([*before, CLASSES, SAID])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("few", [0, 1, 20])
def test_they_say_and_compare_as_others_do(few: int) -> None:
    begun = "from numaforge import lean_classes; lean_classes.begin(); lean_classes.begin()"
    assert said(begun, f"lean_classes._FEW_OBJECTS = {few}") == said()


def test_an_annotation_that_many_fields_share_is_compiled_once_and_means_the_same() -> None:
    program = """
import sys, typing
from numaforge import lean_classes
lean_classes.begin()
class One: x: "int | None"; y: "tuple[str, ...]"
class Other: x: "int | None"; y: "tuple[str, ...]"
print(typing.get_type_hints(One) == typing.get_type_hints(Other) == {"x": int | None, "y": tuple[str, ...]})
print(lean_classes._compiled.cache_info().misses)
class Wrong: x: "int |"
try: typing.get_type_hints(Wrong)
except SyntaxError as error: print(error.msg)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:2] == ["True", "2"]
    assert done.stdout.splitlines()[2].startswith("Forward reference must be an expression")


NONE_COMPILED = """
from numaforge import lean_classes
import dataclasses
compiled = []
create = dataclasses._create_fn
dataclasses._create_fn = lambda name, *given, **how: (compiled.append(name), create(name, *given, **how))[1]
lean_classes.begin()
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="compiles the methods of a class together")
def test_only_what_is_called_often_is_compiled() -> None:
    calls = (
        "compiled.clear(); Named(3); print(compiled); [Point(each) for each in range(25)]; print(compiled)"
    )
    program = f"{NONE_COMPILED}\n{CLASSES.partition('loop = ')[0]}\n{calls}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['__init__']"]
