"""Answers about runs: against listing every element, and where no element could be listed."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariants.runs import below, end_of, first_missing, first_shared, floor_sum, well_formed
from reference import Run

BIG = 2**62

# Two runs, most of them too long to list, and the first element they share; None: there is none.
LONG = (
    (Run(0, 0, 1, 2, BIG // 2), Run(0, 1, 1, 2, BIG // 2), None),
    (Run(0, 0, 1, 2, BIG // 2), Run(0, 1, 1, 3, BIG // 3), 4),
    (Run(0, 0, 1, 2, BIG // 2), Run(0, BIG - 2, 2, 2, 1), BIG - 2),
    (Run(0, 0, 7, 10, BIG // 10), Run(0, 7, 3, 10, BIG // 10), None),
    (Run(0, 0, 7, 10, BIG // 10), Run(0, 7, 3, 11, BIG // 11), 20),
    (Run(0, 0, 5, 10, 2), Run(0, 7, 1, 5, 2), 12),
    (Run(0, 0, BIG // 2, BIG // 2, 1), Run(0, BIG // 2 - 1, 1, 1, 1), BIG // 2 - 1),
    (Run(0, 5, 1, 1 << 31, 1 << 30), Run(0, 6, (1 << 31) - 1, 1 << 31, 1 << 30), None),
)


def elements(run: Run) -> list[int]:
    return [run.start + i * run.stride + k for i in range(run.count) for k in range(run.length)]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    length, count = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    stride = draw(st.integers(length, length + 6)) if count > 1 else draw(st.sampled_from([0, 1, length]))
    return Run(0, draw(st.integers(0, 12)), length, stride, count)


@given(st.integers(0, 40), st.integers(1, 30), st.integers(0, 90), st.integers(0, 90))
def test_floor_sum(count: int, divisor: int, factor: int, start: int) -> None:
    assert floor_sum(count, divisor, factor, start) == sum((start + i * factor) // divisor for i in range(count))


@given(runs(), st.integers(-5, 80))
def test_below(run: Run, bound: int) -> None:
    assert below(run, bound) == sum(element < bound for element in elements(run))


@pytest.mark.parametrize("stride", [0, 1, 5])
def test_a_single_block_has_no_stride(stride: int) -> None:
    run = Run(0, 3, 5, stride, 1)
    assert [below(run, bound) for bound in (3, 5, 8, 9)] == [0, 2, 5, 5]


@given(runs(), st.integers(0, 60))
def test_well_formed(run: Run, numel: int) -> None:
    assert end_of(run) == max(elements(run)) + 1
    assert well_formed(run, numel) == (max(elements(run)) < numel)


@pytest.mark.parametrize(
    "run",
    [Run(0, 0, 0, 1, 1), Run(0, 0, 1, 1, 0), Run(0, -1, 1, 1, 1), Run(0, 0, 2, 1, 2), Run(0, 3, 1, -1, 2)],
    ids=str,
)
def test_not_well_formed(run: Run) -> None:
    assert not well_formed(run, 10)


@given(st.lists(runs(), min_size=2, max_size=5))
def test_first_shared(several: list[Run]) -> None:
    found = first_shared(list(enumerate(several)))
    sets = [set(elements(run)) for run in several]
    if found is None:
        assert not any(one & other for one, other in combinations(sets, 2))
    else:
        one, other, element = found
        assert one != other
        assert element == min(sets[one] & sets[other])


@given(st.lists(runs(), max_size=5), st.integers(0, 60))
def test_first_missing(several: list[Run], numel: int) -> None:
    apart: list[Run] = []
    for run in several:
        if well_formed(run, numel) and first_shared(list(enumerate([*apart, run]))) is None:
            apart.append(run)
    held = {element for run in apart for element in elements(run)}
    assert first_missing(apart, numel) == min(set(range(numel)) - held, default=None)


@pytest.mark.parametrize(("one", "other", "shared"), LONG)
def test_runs_too_long_to_list(one: Run, other: Run, shared: int | None) -> None:
    for pair in ((one, other), (other, one)):
        found = first_shared(list(enumerate(pair)))
        assert (found and found[2]) == shared


def test_the_first_missing_of_very_many() -> None:
    even, odd = Run(0, 0, 1, 2, BIG // 2), Run(0, 1, 1, 2, BIG // 2 - 1)
    assert first_missing([even, odd], BIG) == BIG - 1
    assert first_missing([even], BIG) == 1
    assert first_missing([even, Run(0, 1, 1, 2, BIG // 2)], BIG) is None
