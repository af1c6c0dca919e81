"""Layout laws at every size: what the model says is accepted, one element off is not, and nothing is allocated."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariants import LAWS, Claim, Evidence, Expected, RankStory, Step, Subject, Violation, judge
from reference import Bucketed, Chunk, FlatPadded, InBucket, Layout, Ragged, Run, TwoDimensional, whole_units
from tests.invariants.good import claim_of

LAYOUT_LAWS = [law for law in LAWS if law.family == "layout"]

HUGE: tuple[Layout, ...] = (
    FlatPadded((2**62,), 8),
    FlatPadded((2**62 - 1,), 7),
    FlatPadded((2**53 + 1,), 1),
    FlatPadded((2**61 + 1,), 384, 64),
    FlatPadded((2**61 + 1,), 3),
    Chunk((151936, 4096), 8, 1),
    Chunk((2**31, 2**31 - 1), 6, 1),
    Chunk((2**20, 2**21 + 1, 2**20), 5, 1),
    Chunk((2**62,), 4096),
)


def evidence_of(layout: Layout, claims: Mapping[int, Claim]) -> Evidence:
    """Every rank says this of its layout."""
    size = layout.world_size
    subject = Subject("p", layout.shape, "float32", {size: layout})
    steps = [Step(0, "layout", ("p",), rank, size, claims={"p": claims[rank]}) for rank in range(size)]
    ranks = tuple(RankStory(rank, "done", (step,)) for rank, step in enumerate(steps))
    return Evidence(size, {"p": subject}, ranks, (Expected(),))


def violations(layout: Layout, change: Callable[[int, Claim], Claim] | None = None) -> list[Violation]:
    claims = {rank: claim_of(layout, rank) for rank in range(layout.world_size)}
    if change is not None:
        claims = {rank: change(rank, claim) for rank, claim in claims.items()}
    evidence = evidence_of(layout, claims)
    return [violation for law in LAYOUT_LAWS for violation in judge(law, evidence).violations]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 2**20, 2**20 + 1]), max_size=3)))
    size, alignment = draw(st.integers(1, 8)), draw(st.sampled_from([1, 2, 64]))
    kind = draw(st.sampled_from(["flat", "ragged", "bucket", *(["chunk", "mesh"] if shape else [])]))
    if kind == "ragged":
        return Ragged(shape, whole_units(prod(shape), size, draw(st.sampled_from([(1,), (3, 2), (2**20,)]))))
    if kind == "bucket":
        return InBucket(Bucketed((shape, (7,), shape), size, draw(st.sampled_from([None, 1, 10])), alignment), 2)
    if kind == "chunk":
        return Chunk(shape, size, draw(st.integers(0, len(shape) - 1)))
    if kind == "mesh":
        return TwoDimensional(shape, (size, 3), draw(st.integers(0, len(shape) - 1)), None, alignment)
    return FlatPadded(shape, size, alignment)


@given(layouts())
def test_the_model_is_accepted(layout: Layout) -> None:
    assert violations(layout) == []


@given(layouts(), st.data())
def test_an_element_less_is_not(layout: Layout, data: st.DataObject) -> None:
    holders = [rank for rank in range(layout.world_size) if layout.owned(rank)]
    if not holders:
        return
    poor = data.draw(st.sampled_from(holders))

    def take(rank: int, claim: Claim) -> Claim:
        if rank != poor:
            return claim
        *others, run = claim.runs
        shorter = (replace(run, count=run.count - 1),) if run.count > 1 else (replace(run, length=run.length - 1),)
        return replace(claim, runs=(*others, *(one for one in shorter if one.numel)))

    found = violations(layout, take)
    assert "owned-exactly-once" in {violation.law for violation in found}


@pytest.mark.parametrize("layout", HUGE, ids=str)
def test_huge_layouts_are_judged_without_listing_them(layout: Layout) -> None:
    tracemalloc.start()
    try:
        assert violations(layout) == []
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("layout", "change", "law", "offset"),
    [
        # ceil by floating-point division: one shard too short, the last element lost
        (FlatPadded((2**53 + 1,), 1), {"shard_numel": 2**53, "padded_numel": 2**53}, "padding-minimal", None),
        (FlatPadded((2**53 + 1,), 1), {"runs": (Run(0, 0, 2**53, 2**53, 1),)}, "owned-exactly-once", 2**53),
        (FlatPadded((2**62,), 8), {"runs": (Run(0, 1, 2**59, 2**59, 1),)}, "owned-exactly-once", 2**59),
        (Chunk((2**31, 2**31), 2, 1), {"runs": (Run(0, 0, 2**30, 2**31, 2**31 - 1),)}, "owned-exactly-once", None),
        (Chunk((2**31, 2**31), 2, 1), {"runs": (Run(0, 0, 2**30, 2**31 + 1, 2**31 - 1),)}, "owned-exactly-once", None),
    ],
    ids=str,
)
def test_one_element_off_is_found(layout: Layout, change: dict[str, Any], law: str, offset: int | None) -> None:
    found = violations(layout, lambda rank, claim: replace(claim, **change) if rank == 0 else claim)
    mine = [violation for violation in found if violation.law == law]
    assert mine
    assert offset in (None, mine[0].offset)


def test_a_row_of_blocks_is_as_good_as_one_run() -> None:
    layout = Chunk((300, 7), 3, 1)

    def rows(rank: int, claim: Claim) -> Claim:
        (run,) = claim.runs
        blocks = (Run(i * run.length, run.start + i * run.stride, run.length, run.length, 1) for i in range(run.count))
        return replace(claim, runs=tuple(blocks))

    assert violations(layout, rows) == []
    assert prod(layout.shape) == sum(layout.owned(rank) for rank in range(3))


@pytest.mark.parametrize(
    ("layout", "runs"),
    [
        (FlatPadded((5,), 2), {1: (Run(0, 3, 1, 1, 1), Run(1, 4, 1, 1, 1))}),
        (FlatPadded((5,), 2), {0: (Run(1, 1, 2, 2, 1), Run(0, 0, 1, 1, 1))}),
        (FlatPadded((6,), 2), {0: (Run(0, 0, 1, 1, 3),), 1: (Run(0, 3, 3, 0, 1),)}),
    ],
    ids=["in two runs", "not by offset", "blocks that touch, and a stride of none"],
)
def test_the_same_map_may_be_said_in_other_runs(layout: Layout, runs: dict[int, tuple[Run, ...]]) -> None:
    assert violations(layout, lambda rank, claim: replace(claim, runs=runs.get(rank, claim.runs))) == []


def test_laws_that_a_layout_does_not_owe_are_not_judged() -> None:
    layout = Chunk((4, 6), 2, 1)
    evidence = evidence_of(layout, {rank: claim_of(layout, rank) for rank in range(2)})
    judged = {law.slug for law in LAYOUT_LAWS if judge(law, evidence).judged}
    assert judged == {"padding-minimal", "owned-exactly-once", "logical-size-carried"}
