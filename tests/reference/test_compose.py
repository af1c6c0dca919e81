"""A map of a map is the map that looking up twice gives, whatever runs the two are said in."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from reference.compose import composed
from reference.runs import Run, normal

Map = dict[int, int]


def spelled(runs: Iterable[Run]) -> Map:
    """Position by offset, element by element."""
    return {
        run.local + block * run.length + at: run.start + block * run.stride + at
        for run in runs
        for block in range(run.count)
        for at in range(run.length)
    }


@st.composite
def maps(draw: st.DrawFn) -> tuple[Run, ...]:
    """Runs by rising offset with rising positions, and gaps in both: what layouts make, and what starts elsewhere."""
    small, runs = st.integers(0, 4), []
    offset, position = draw(small), draw(small)
    for _ in range(draw(st.integers(1, 3))):
        length, count = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        stride = length + draw(small)
        runs += normal(Run(offset, position, length, stride, count))
        offset += length * count + draw(small)
        position += (count - 1) * stride + length + draw(small)
    return tuple(runs)


@given(maps(), maps())
def test_composed(outer: tuple[Run, ...], inner: tuple[Run, ...]) -> None:
    coarse, fine = spelled(outer), spelled(inner)
    assert spelled(composed(outer, inner)) == {at: coarse[through] for at, through in fine.items() if through in coarse}


@given(maps())
def test_all_of_a_map_is_the_map(outer: tuple[Run, ...]) -> None:
    end = max(spelled(outer)) + 1
    assert spelled(composed(outer, (Run(0, 0, end, end, 1),))) == spelled(outer)
