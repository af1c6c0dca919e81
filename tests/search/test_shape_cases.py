from __future__ import annotations

import pytest

from reference import DTYPES
from shardproof.case import LayoutSpec
from shardproof.case_rules import check
from shardproof.features import features
from shardproof.layouts import KINDS
from shardproof.model_shapes import shape_set, shape_sets
from shardproof.shape_cases import shape_cases
from tests.search.planted import describe, kinds

ALL = describe(layouts=KINDS, alignments=(1, 8))
FUNCTIONS = describe(form="functions", offers=("gather", "use", "update"))


@pytest.mark.parametrize("name", shape_sets())
def test_every_model(name: str) -> None:
    shapes = shape_set(name)
    found = list(shape_cases(shapes, ALL, (1, 3, 8)))
    for case in found:
        check(case)
    asked = [case for case in found if kinds(case) == ["layout"]]
    true_sizes = {(p.name, p.shape) for p in shapes.parameters}
    assert {(p.id, p.shape) for case in asked for p in case.parameters} == true_sizes
    moved = [case for case in found if "gather" in kinds(case)]
    assert {p.id for case in moved for p in case.parameters} == {p.name for p in shapes.parameters}
    assert {case.layout.kind for case in asked} == {case.layout.kind for case in moved} == set(KINDS)
    assert any("several-buckets" in features(case) for case in moved)
    for case in moved:
        assert sum(p.numel * DTYPES[p.dtype].itemsize for p in case.parameters) < 1 << 20


@pytest.mark.parametrize(("world_size", "padded"), [(3, False), (5, True)])
def test_remainders_are_kept(world_size: int, padded: bool) -> None:
    """Where a true shape needs padding, so does the small one."""
    asked, moved = shape_cases(shape_set("gpt2"), describe(), (world_size,))
    assert [("padding" in features(case)) for case in (asked, moved)] == [padded, padded]


def test_layouts_that_are_named_are_the_only_ones() -> None:
    only = (LayoutSpec("bucket", bucket_alignment=8), LayoutSpec("grouped", group_size=2))
    description = describe(layouts=KINDS, specs=only)
    found = list(shape_cases(shape_set("gpt2"), description, (2, 3)))
    assert [(case.world_size, case.layout) for case in found] == [
        (size, spec) for size, specs in ((2, only), (3, only[:1])) for spec in specs for _ in ("asked", "moved")
    ]


def test_two_functions_are_asked_for_what_they_offer() -> None:
    found = list(shape_cases(shape_set("gpt2"), FUNCTIONS, (2,)))
    assert {kind for case in found for kind in kinds(case)} == {"register", "gather", "update"}
