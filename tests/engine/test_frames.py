"""An error is told with the places it came through, and the harness's own only where there is no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shardproof.rank_side import sessions
from shardproof.rank_side.frames import frames_outside

HERE = str(Path(__file__).relative_to(Path.cwd())) if Path(__file__).is_relative_to(Path.cwd()) else __file__


def outer(act: Callable[[], object]) -> None:
    act()


def inner() -> None:
    raise ValueError("planted")


def frames(act: Callable[[], object]) -> list[str]:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # whatever it is
        outer(act)
    return [place.partition(" in ")[2] for place in frames_outside(raised.value)]


def test_the_innermost_frames_outermost_first() -> None:
    assert frames(inner)[-2:] == ["outer", "inner"]
    with pytest.raises(ValueError, match="planted") as raised:
        inner()
    assert frames_outside(raised.value)[-1].startswith(f"{HERE}:")


def test_those_of_the_harness_are_left_out() -> None:
    assert frames(lambda: sessions.load("no.such.module"))[-1] == "<lambda>"


def test_an_error_of_nobody_else_shows_where_it_is() -> None:
    with pytest.raises(sessions.NotAnImplementation) as raised:
        sessions.load("no.such.module")
    own = raised.value.with_traceback(raised.value.__traceback__.tb_next if raised.value.__traceback__ else None)
    (place,) = frames_outside(own)
    assert "sessions.py" in place


def test_few_of_many() -> None:
    def deep(levels: int) -> object:
        return deep(levels - 1) if levels else json.loads("{")

    assert frames(lambda: deep(9))[-1] == "deep"
    assert len(frames(lambda: deep(9))) == 4
