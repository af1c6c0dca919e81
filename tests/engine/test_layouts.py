"""The layouts of a case's parameters together, and what an implementation is told of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reference import Bucketed, Chunk, FlatPadded, Grouped, InBucket, Layout, Ragged, TwoDimensional
from shardproof.case import Case, Group, LayoutSpec, Operation, Parameter
from shardproof.case_rules import check
from shardproof.errors import UsageError
from shardproof.layouts import KINDS, at, cuts_of, fits, layout_of, layouts_of, least_dims, plainest

A, B, C = Parameter("a", (5, 2)), Parameter("b", (3, 4)), Parameter("c", (2, 2), "int8")
TIED = Parameter("t", (5, 2), tied_to="a")
# A spec, the layout of a over 4 ranks, and what is told beside the shape.
ALONE: list[tuple[LayoutSpec, Layout, dict[str, Any]]] = [
    (LayoutSpec(), FlatPadded((5, 2), 4), {}),
    (LayoutSpec(alignment=8), FlatPadded((5, 2), 4, 8), {"alignment": 8}),
    (LayoutSpec("chunk"), Chunk((5, 2), 4), {}),
    (LayoutSpec("chunk", dim=1), Chunk((5, 2), 4, 1), {"dim": 1}),
    (LayoutSpec("ragged", units=(3, 2)), Ragged((5, 2), (3, 5, 2, 0)), {"units": (3, 2)}),
    (LayoutSpec("grouped", 2, group_size=2), Grouped(FlatPadded((5, 2), 2, 2), 2), {"alignment": 2, "group_size": 2}),
    (
        LayoutSpec("grouped_chunk", dim=1, group_size=2),
        Grouped(Chunk((5, 2), 2, 1), 2),
        {"dim": 1, "group_size": 2},
    ),
    (
        LayoutSpec("two_dimensional", 3, 1, mesh=(2, 2)),
        TwoDimensional((5, 2), (2, 2), 1, None, 3),
        {"alignment": 3, "dim": 1, "mesh": (2, 2)},
    ),
]


@pytest.mark.parametrize(("spec", "layout", "told"), ALONE, ids=[str(number) for number in range(len(ALONE))])
def test_each_for_itself(spec: LayoutSpec, layout: Layout, told: dict[str, Any]) -> None:
    cuts = cuts_of(spec, (B, A), 4)
    assert (cuts["a"].layout, cuts["a"].options) == (layout, told)
    assert layout_of(spec, A.shape, 4) == layouts_of(spec, (A, B, C), 4)["a"] == layout


def test_parameters_of_one_dtype_share_a_buffer_and_a_tied_one_its_root_s_place() -> None:
    spec = LayoutSpec("bucket", 2, 0, 12, 4, 3)
    cuts = cuts_of(spec, (A, C, TIED, B), 2)
    shapes = ((5, 2), (3, 4))
    buffer = Bucketed(shapes, 2, 12, 4, 3, 2)
    assert cuts["a"] == cuts["t"]
    assert [cuts[id].layout for id in "ab"] == [InBucket(buffer, 0), InBucket(buffer, 1)]
    assert cuts["c"].layout == InBucket(Bucketed(((2, 2),), 2, 12, 4, 3, 2), 0)
    rounding = {"alignment": 2, "bucket_numel": 12, "parameter_alignment": 4, "bucket_alignment": 3}
    assert cuts["b"].options == {**rounding, "shapes": shapes, "index": 1}
    assert cuts["c"].options == {**rounding, "shapes": ((2, 2),), "index": 0}


def test_a_tied_parameter_without_its_root_stands_for_itself() -> None:
    cuts = cuts_of(LayoutSpec("bucket"), (B, TIED), 2)
    assert cuts["t"].options == {"shapes": ((3, 4), (5, 2)), "index": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_the_plainest_can_be_run_on_one_rank(kind: Any) -> None:
    spec = plainest(kind)
    check(Case((Group("main", (0,)),), (A,), (Operation("register"),), spec))
    assert spec.kind == kind
    assert layout_of(spec, A.shape, 1).owned(0) == A.numel


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="spiral"):
        plainest("spiral")  # type: ignore[arg-type]  # there is none
    with pytest.raises(UsageError, match="spiral"):
        layout_of(LayoutSpec("spiral"), (2,), 1)  # type: ignore[arg-type]  # likewise


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        (LayoutSpec(), {1, 2, 3, 4, 5, 6}),
        (LayoutSpec("bucket", bucket_alignment=4), {1, 2, 3, 4, 5, 6}),
        (LayoutSpec("grouped", group_size=2), {2, 4, 6}),
        (LayoutSpec("grouped_chunk", group_size=3), {3, 6}),
        (LayoutSpec("two_dimensional", mesh=(2, 3)), {3, 6}),
    ],
)
def test_world_sizes_that_fit(spec: LayoutSpec, sizes: set[int]) -> None:
    assert {size for size in range(1, 7) if fits(spec, size)} == sizes


def test_a_mesh_keeps_its_tensor_ranks_at_another_world_size() -> None:
    spec = LayoutSpec("two_dimensional", mesh=(2, 3))
    assert at(spec, 12) == replace(spec, mesh=(4, 3))
    assert layout_of(spec, (7, 2), 3) == TwoDimensional((7, 2), (1, 3))
    assert at(LayoutSpec("grouped", group_size=2), 6) == LayoutSpec("grouped", group_size=2)


@pytest.mark.parametrize(
    ("spec", "dims"),
    [
        (LayoutSpec(), 0),
        (LayoutSpec("chunk"), 1),
        (LayoutSpec("grouped_chunk", dim=1, group_size=1), 2),
        (LayoutSpec("two_dimensional", dim=2), 3),
    ],
)
def test_dims_that_a_layout_needs(spec: LayoutSpec, dims: int) -> None:
    assert least_dims(spec) == dims
