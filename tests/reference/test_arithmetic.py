"""The three functions under every formula: right on ints of any size, on arrays and on SMT terms."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
import z3
from hypothesis import given
from hypothesis import strategies as st

from reference import ceil_div, clamp, min_, owned_of, shard_numel_of

HUGE = 2**62

CEIL_DIV = [
    (0, 1, 0),
    (0, 7, 0),
    (1, 7, 1),
    (6, 7, 1),
    (7, 7, 1),
    (8, 7, 2),
    (-1, 7, 0),
    (-7, 7, -1),
    (-8, 7, -1),
    (2**53 + 1, 1, 2**53 + 1),  # the first integer that float64 does not have
    (2**61 + 1, 384, 6004799503160662),
    (HUGE, HUGE, 1),
    (HUGE, 3, (HUGE + 2) // 3),
]
CLAMP = [
    (-1, 0, 5, 0),
    (0, 0, 5, 0),
    (3, 0, 5, 3),
    (5, 0, 5, 5),
    (6, 0, 5, 5),
    (9, 0, 0, 0),
    (HUGE, 0, HUGE - 1, HUGE - 1),
]
MIN = [(0, 0, 0), (-1, 1, -1), (1, -1, -1), (HUGE, HUGE - 1, HUGE - 1)]
FORMULAS = [
    (numel, world_size, alignment, rank)
    for numel in (0, 1, 5, 12, 13, 2**53 + 1)
    for world_size in (1, 2, 5)
    for alignment in (1, 4)
    for rank in range(world_size)
]


def integer(term: z3.ArithRef) -> int:
    """The number that a closed SMT term stands for."""
    return int(z3.simplify(term).as_long())


@pytest.mark.parametrize(("a", "b", "expected"), CEIL_DIV)
def test_ceil_div(a: int, b: int, expected: int) -> None:
    assert ceil_div(a, b) == expected
    assert ceil_div(np.array([a, a]), b).tolist() == [expected, expected]
    assert integer(ceil_div(z3.IntVal(a), z3.IntVal(b))) == expected
    assert integer(ceil_div(a, z3.IntVal(b))) == integer(ceil_div(z3.IntVal(a), b)) == expected


@pytest.mark.parametrize(("x", "low", "high", "expected"), CLAMP)
def test_clamp(x: int, low: int, high: int, expected: int) -> None:
    assert clamp(x, low, high) == expected
    assert clamp(np.array([x]), low, high).tolist() == [expected]
    assert integer(clamp(z3.IntVal(x), low, z3.IntVal(high))) == expected


@pytest.mark.parametrize(("a", "b", "expected"), MIN)
def test_min(a: int, b: int, expected: int) -> None:
    assert min_(a, b) == expected
    assert min_(np.array([a]), np.array([b])).tolist() == [expected]
    assert integer(min_(z3.IntVal(a), b)) == expected


@given(st.integers(-HUGE, HUGE), st.integers(1, HUGE))
def test_ceil_div_is_the_ceiling_of_the_fraction(a: int, b: int) -> None:
    assert ceil_div(a, b) == ceil(Fraction(a, b))


@given(st.integers(-HUGE, HUGE), st.integers(0, HUGE), st.integers(0, HUGE))
def test_min_and_clamp_are_those_of_python(x: int, low: int, more: int) -> None:
    assert min_(x, low) == min(x, low)
    assert clamp(x, low, low + more) == max(low, min(x, low + more))


@pytest.mark.parametrize(("numel", "world_size", "alignment", "rank"), FORMULAS)
def test_formulas_say_the_same_to_ints_arrays_and_terms(numel: int, world_size: int, alignment: int, rank: int) -> None:
    shard_numel = shard_numel_of(numel, world_size, alignment)
    owned = owned_of(numel, shard_numel, rank)
    arrays = shard_numel_of(np.array([numel]), np.array([world_size]), np.array([alignment]))
    assert arrays.tolist() == [shard_numel]
    assert owned_of(np.array([numel]), arrays, np.array([rank])).tolist() == [owned]
    term = shard_numel_of(z3.IntVal(numel), z3.IntVal(world_size), z3.IntVal(alignment))
    assert integer(term) == shard_numel
    assert integer(owned_of(z3.IntVal(numel), term, z3.IntVal(rank))) == owned


def test_a_solver_proves_the_formulas_for_every_numel() -> None:
    """With the world size fixed the terms are linear, so the answer is a proof for all numels."""
    numel, rank = z3.Ints("numel rank")
    for world_size in (1, 2, 3, 8):
        shard_numel = shard_numel_of(numel, world_size)
        owned = owned_of(numel, shard_numel, rank)
        covers = world_size * shard_numel >= numel
        minimal = world_size * shard_numel - numel < world_size
        bounded = z3.And(owned >= 0, owned <= shard_numel, (owned == 0) == z3.Or(rank * shard_numel >= numel))
        solver = z3.Solver()
        solver.add(numel >= 0, rank >= 0, rank < world_size, z3.Not(z3.And(covers, minimal)))
        assert solver.check() == z3.unsat
        for place in range(world_size):
            solver = z3.Solver()
            solver.add(numel >= 0, rank == place, z3.Not(z3.substitute(bounded, (rank, z3.IntVal(place)))))
            assert solver.check() == z3.unsat
