"""Values that are made often are what their dataclass says, only quicker to make."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from placement.model.frozen import made_often


@made_often
@dataclass(frozen=True, slots=True)
class Point:
    """A value with and without defaults."""

    x: int
    y: int = 2
    names: tuple[str, ...] = ("a",)


def test_it_takes_what_the_dataclass_takes():
    assert (Point(1).x, Point(1).y, Point(1).names) == (1, 2, ("a",))
    assert Point(1, names=(), y=5) == Point(1, 5, ())
    assert list(inspect.signature(Point).parameters) == ["x", "y", "names"]
    with pytest.raises(TypeError, match=r"Point\.__init__"):
        Point()


def test_it_stays_frozen_comparable_and_copied_by_value():
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2
    assert {point, Point(1)} == {point}
    assert repr(point).endswith("Point(x=1, y=2, names=('a',))")
    assert replace(point, y=7) == Point(1, 7)
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point


def test_a_class_whose_init_does_more_is_refused():
    @dataclass(frozen=True, slots=True)
    class Checked:
        x: int

        def __post_init__(self) -> None:
            pass

    @dataclass(frozen=True, slots=True)
    class Anew:
        x: list[int] = field(default_factory=list)

    for cls in (Checked, Anew):
        with pytest.raises(TypeError, match=cls.__name__):
            made_often(cls)
