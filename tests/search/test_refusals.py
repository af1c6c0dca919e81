"""One small case of every kind of difference between ranks, and when a search tries it."""

from __future__ import annotations

from typing import Any

import pytest

from shardproof.case_rules import check
from shardproof.layouts import KINDS
from shardproof.oracle import wanted
from shardproof.profiles import Budget
from shardproof.refusals import EVERY, refusals
from shardproof.search import Plan, search
from tests.search.planted import Planted, describe

KINDS_OF_DIFFERENCE = {"dtype", "shape", "order", "refuses", "shard_numel", "missing"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_sizes", [(2,), (1, 3, 4)])
def test_each_can_be_run_and_must_be_refused(kind: str, world_sizes: tuple[int, ...]) -> None:
    found = refusals(describe(layouts=(kind,), alignments=(2, 4)), world_sizes)
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
    assert refusals(describe(**changes), world_sizes) == ()


def test_a_search_tries_each_once_between_its_first_cases() -> None:
    planted = Planted({"a": lambda _: False})
    search(planted, Plan(budget=Budget(examples=60, seconds=300, shrink_seconds=300)))
    tried = [at for case in refusals(planted.description, range(1, 9)) for at in [planted.judged.index(case)]]
    assert tried == sorted(tried)
    assert tried[-1] <= (EVERY + 1) * len(tried)


def test_a_law_that_only_a_refusal_breaks_is_found_and_made_smaller() -> None:
    kinds = {"shard_numel"}
    planted = Planted({"a": lambda case: {d.kind for d in case.divergences} == kinds and case.world_size == 2})
    result = search(planted, Plan(budget=Budget(examples=25, seconds=300, shrink_seconds=300)))
    (failure,) = result.failures
    assert (len(failure.case.divergences), failure.case.parameters[0].numel) == (1, 1)
    assert result.cases == 25
