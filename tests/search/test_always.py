"""Small cases that every search tries: one of every kind of difference between ranks, and one that none can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shardproof.always import AT_ONCE, always
from shardproof.case import Case, LayoutSpec
from shardproof.case_rules import check
from shardproof.engine import Description
from shardproof.layouts import KINDS
from shardproof.oracle import wanted
from shardproof.profiles import Budget
from shardproof.search import Plan, search
from tests.search.planted import Planted, describe, kinds

KINDS_OF_DIFFERENCE = {"dtype", "shape", "order", "refuses", "shard_numel", "missing"}


def refused(description: Description, world_sizes: Sequence[int]) -> list[Case]:
    return [case for case in always(description, world_sizes) if case.divergences]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_sizes", [(2,), (1, 3, 4)])
def test_each_can_be_run_and_must_be_refused(kind: str, world_sizes: tuple[int, ...]) -> None:
    found = refused(describe(layouts=(kind,), alignments=(2, 4)), world_sizes)
    for case in found:
        check(case)
        assert case.layout.kind == kind
        assert case.world_size == min(size for size in world_sizes if size > 1)
        assert wanted(case, None, "gloo")[0] == "refuse"
    assert {case.divergences[0].kind for case in found} == KINDS_OF_DIFFERENCE
    assert {len(case.divergences) for case in found if case.divergences[0].kind == "shard_numel"} == {
        1,
        found[0].world_size,
    }


@pytest.mark.parametrize(
    ("changes", "world_sizes"), [({}, (1,)), ({"form": "functions", "offers": ("gather", "use")}, (1, 2))]
)
def test_none_where_no_rank_can_differ(changes: dict[str, Any], world_sizes: tuple[int, ...]) -> None:
    assert refused(describe(**changes), world_sizes) == []


def test_layouts_that_are_named_are_the_only_ones() -> None:
    only = tuple(LayoutSpec("bucket", bucket_numel=numel, bucket_alignment=8) for numel in (None, 1))
    found = always(describe(layouts=("bucket",), specs=only), (1, 2))
    assert {case.layout for case in found} == set(only)


@pytest.mark.parametrize(
    ("changes", "there"), [({}, True), ({"offers": ("gather",)}, False), ({"layouts": ("grouped",)}, True)]
)
def test_a_layout_of_what_none_can_hold(changes: dict[str, Any], there: bool) -> None:
    found = [case for case in always(describe(**changes), (1, 2)) if kinds(case) == ["layout"]]
    assert bool(found) is there
    for case in found:
        check(case)
        assert float(case.parameters[0].numel) != case.parameters[0].numel
        assert case.parameters[0].numel > 2**33


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_sizes", [(1,), (2, 8), (3, 4)])
def test_what_shows_much_at_once_can_be_run(kind: str, world_sizes: tuple[int, ...]) -> None:
    layouts = (kind,) if kind == "chunk" else ("flat_padded", kind)  # one of those that cut a parameter once
    found = [case for case in always(describe(layouts=layouts), world_sizes) if not case.divergences]
    for case in found:
        check(case)
        assert wanted(case, None, "gloo")[0] == "accept"
    assert {case.layout.kind for case in found} == set(layouts)
    assert any(case.delays for case in found)
    asked = {operation.kind for case in found for operation in case.program}
    assert asked >= {"register", *describe().offers} - {"invalidate", "layout"}


def test_of_two_functions_only_gathers_are_asked() -> None:
    found = always(describe(form="functions", offers=("gather", "use")), (1, 2))
    assert {operation.kind for case in found for operation in case.program} == {"register", "gather"}
    assert not any(parameter.tied_to for case in found for parameter in case.parameters)


def test_a_default_group_is_asked_for_no_other_world_size() -> None:
    assert all(len(case.groups) == 1 for case in always(describe(needs_default_group=True), (1, 2, 4)))


def test_a_law_broken_by_one_of_them_is_reported_at_once() -> None:
    found: list[str] = []
    planted = Planted({"a": lambda case: any(parameter.dtype == "float64" for parameter in case.parameters)})
    search(
        planted,
        Plan(budget=Budget(examples=200, seconds=300, shrink_seconds=300)),
        [lambda event: found.append(type(event).__name__)],
    )
    assert found.index("FailureFound") < found.index("CaseJudged", 60)


def test_a_search_tries_each_once_between_its_first_cases() -> None:
    planted = Planted({"a": lambda _: False})
    search(planted, Plan(budget=Budget(examples=60, seconds=300, shrink_seconds=300)))
    tried = [at for case in always(planted.description, range(1, 9)) for at in [planted.judged.index(case)]]
    assert tried == sorted(tried)
    assert tried[-1] < 2 * len(tried)
    assert AT_ONCE == 2


def test_a_law_that_only_a_refusal_breaks_is_found_and_made_smaller() -> None:
    planted = Planted({"a": lambda case: {d.kind for d in case.divergences} == {"shard_numel"}})
    result = search(planted, Plan(budget=Budget(examples=25, seconds=300, shrink_seconds=300)))
    (failure,) = result.failures
    assert (len(failure.case.divergences), failure.case.parameters[0].numel) == (1, 1)
    assert result.cases == 25
