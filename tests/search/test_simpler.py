from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shardproof.case import Case, Delay, Divergence, Group, LayoutSpec, Operation, Parameter
from shardproof.case_rules import check
from shardproof.simpler import simpler, size
from tests.search.test_case_file import ANY, EVERY
from tests.search.test_strategies import drawn

P, Q = Parameter("p", (1,)), Parameter("q", (1,))


def case(words: str, *parameters: Parameter, world: int = 1, **changes: Any) -> Case:
    """The words are operations; "gather:p" acts on p alone, "gather@other" happens in a second group of one rank."""
    groups = [Group("main", tuple(range(world)))]
    if "@" in words:
        groups.append(Group("other", (0,)))
    operations = []
    for word in words.split():
        kind, _, rest = word.partition(":")
        kind, _, group = kind.partition("@")
        operations.append(Operation(kind, (rest,) if rest else (), group or "main"))  # type: ignore[arg-type]  # kinds by name
    return Case(tuple(groups), parameters or (P,), tuple(operations), **changes)


# A case, and one that must be among those one step simpler.
STEPS: list[tuple[Case, Case]] = [
    (case("register gather"), case("register")),
    (case("register prefetch wait"), case("register")),
    (case("register prefetch wait release"), case("register gather release")),
    (case("register forward backward norm step gather"), case("register gather")),
    (case("register forward backward reduce clip step"), case("register reduce clip step")),
    (case("register forward backward reduce clip step"), case("register forward backward")),
    (case("register gather", P, Q), case("register gather", P)),
    (case("register gather", P, Q), case("register gather", Q)),
    (case("register gather:p gather:q", P, Q), case("register gather", Q)),
    (case("register", P, Parameter("t", (1,), tied_to="p")), case("register", Parameter("t", (1,)))),
    (case("register", P, Parameter("t", (1,), tied_to="p")), case("register", P, Parameter("t", (1,)))),
    (case("register", world=4), case("register", world=2)),
    (case("register", world=3, divergences=(Divergence(2, "refuses"),)), case("register", world=3)),
    (
        case("register", world=3, divergences=(Divergence(2, "refuses"),)),
        case("register", world=2, divergences=(Divergence(1, "refuses"),)),
    ),
    (case("register", delays=(Delay(0, 0, 2),)), case("register")),
    (
        case("register update gather", delays=(Delay(0, 2, 2),)),
        case("register gather", delays=(Delay(0, 1, 2),)),
    ),
    (case("register", seed=3), case("register")),
    (case("register", layout=LayoutSpec(alignment=8)), case("register")),
    (case("register", layout=LayoutSpec("chunk")), case("register")),
    (case("register", layout=LayoutSpec("bucket", 2, 0, 9, 4, 8)), case("register", layout=LayoutSpec("bucket"))),
    (case("register", layout=LayoutSpec("bucket", 1, 0, 9)), case("register", layout=LayoutSpec("bucket", 1, 0, 1))),
    (case("register", layout=LayoutSpec("bucket", 1, 0, 9)), case("register", layout=LayoutSpec("bucket"))),
    (
        case("register", layout=LayoutSpec("bucket", 1, 0, 9, 64)),
        case("register", layout=LayoutSpec("bucket", 1, 0, 9, 2)),
    ),
    (
        case("register", layout=LayoutSpec("ragged", units=(5, 3))),
        case("register", layout=LayoutSpec("ragged", units=(1,))),
    ),
    (
        case("register", layout=LayoutSpec("ragged", units=(5, 3))),
        case("register", layout=LayoutSpec("ragged", units=(4, 2))),
    ),
    (
        case("register", world=4, layout=LayoutSpec("grouped", group_size=4)),
        case("register", world=2, layout=LayoutSpec("grouped", group_size=2)),
    ),
    (
        case("register", world=4, layout=LayoutSpec("grouped", group_size=4)),
        case("register", world=4, layout=LayoutSpec("grouped", group_size=2)),
    ),
    (
        case("register", world=4, layout=LayoutSpec("grouped_chunk", group_size=4)),
        case("register", world=2, layout=LayoutSpec("grouped_chunk", group_size=2)),
    ),
    (
        case("register", world=4, layout=LayoutSpec("two_dimensional", mesh=(2, 2))),
        case("register", world=2, layout=LayoutSpec("two_dimensional", mesh=(1, 2))),
    ),
    (
        case("register", world=4, layout=LayoutSpec("two_dimensional", mesh=(2, 2))),
        case("register", world=4, layout=LayoutSpec("two_dimensional", mesh=(4, 1))),
    ),
    (case("register", Parameter("p", (7, 3))), case("register", P)),
    (case("register", Parameter("p", (7, 3)), Parameter("q", (7, 3))), case("register", P, Q)),
    (case("register", Parameter("p", (3, 2, 0))), case("register", Parameter("p", (1, 1, 1)))),
    (case("register", Parameter("p", (7, 3))), case("register", Parameter("p", (21,)))),
    (case("register", Parameter("p", (7, 3))), case("register", Parameter("p", (6, 3)))),
    (case("register", Parameter("p", (7, 3))), case("register", Parameter("p", (3, 3)))),
    (case("register", Parameter("p", (1, 3))), case("register", Parameter("p", (3,)))),
    (case("register", Parameter("p", ())), case("register", P)),
    (
        case("register", Parameter("p", (2, 2), strides=(1, 9))),
        case("register", Parameter("p", (2, 2), strides=(1, 2))),
    ),
    (case("register", Parameter("p", (1, 2), strides=(9, 4))), case("register", Parameter("p", (2,), strides=(4,)))),
    (
        case("register", Parameter("p", (1,), storage_offset=3)),
        case("register", Parameter("p", (1,), storage_offset=1)),
    ),
    (case("register", Parameter("p", (1,), "float64")), case("register")),
    (case("register", Parameter("p", (1,), grad_buffer="absent")), case("register")),
    (case("register", Parameter("p", (1,), frozen=True)), case("register")),
    (case("register gather:p", P), case("register gather", P)),
    (case("register save load@other gather@other"), case("register save gather")),
]


@pytest.mark.parametrize(("start", "wanted"), STEPS, ids=range(len(STEPS)))
def test_one_step(start: Case, wanted: Case) -> None:
    assert wanted in list(simpler(start, range(1, 9)))


# A case, and one that must not be among those one step simpler.
NO_STEPS: list[tuple[Case, Case]] = [
    (case("register"), case("register", Parameter("p", ()))),
    (case("register gather"), case("gather")),
    (case("register", Parameter("p", (1,), "int8", frozen=True)), case("register", Parameter("p", (1,), "int8"))),
    (case("register", Parameter("p", (3,))), case("register", Parameter("p", (0,)))),
    (
        case("register", Parameter("p", (2, 2)), layout=LayoutSpec("chunk", dim=1)),
        case("register", Parameter("p", (4,)), layout=LayoutSpec("chunk", dim=1)),
    ),
]


@pytest.mark.parametrize(("start", "unwanted"), NO_STEPS, ids=range(len(NO_STEPS)))
def test_no_step(start: Case, unwanted: Case) -> None:
    assert unwanted not in list(simpler(start, range(1, 9)))


def test_layouts_of_kinds_that_are_not_there_are_not_tried() -> None:
    start = case("register", layout=LayoutSpec("bucket", bucket_numel=7))
    found = {candidate.layout for candidate in simpler(start, range(1, 9), ("bucket", "chunk"))}
    assert found
    assert {layout.kind for layout in found} == {"bucket"}


def test_layouts_that_are_not_named_are_not_tried() -> None:
    """Where an implementation names its only layouts, a case keeps to them while it gets smaller."""
    only = tuple(LayoutSpec("bucket", bucket_numel=numel, bucket_alignment=8) for numel in (None, 1))
    start = case("register", Parameter("p", (3,)), layout=only[1])
    found = {candidate.layout for candidate in simpler(start, range(1, 9), ("bucket",), only)}
    assert found == set(only)


def test_the_simplest_has_none() -> None:
    assert list(simpler(case("register", Parameter("p0", (1,))), range(1, 9))) == []


def test_parameters_are_numbered_again() -> None:
    start = case("register gather:b", Parameter("b", (1,)), Parameter("c", (1,), tied_to="b"))
    renamed = case("register gather:p0", Parameter("p0", (1,)), Parameter("p1", (1,), tied_to="p0"))
    assert renamed in simpler(start, (1,))


@pytest.mark.parametrize("world_sizes", [(1, 2, 4), (4,)])
def test_whatever_is_drawn_gets_simpler_and_stays_valid(world_sizes: Sequence[int]) -> None:
    for start in [*drawn(ANY, 60, world_sizes), *drawn(EVERY, 60, world_sizes)]:
        for candidate in simpler(start, world_sizes):
            check(candidate)
            assert size(candidate) < size(start)
            assert candidate.world_size in world_sizes
