from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference import decode
from shardproof.case import Case, Divergence, Group, Operation, Parameter
from shardproof.contents import full_bits, gradient
from shardproof.oracle import expectations, wanted
from shardproof.values import as_bytes
from tests.engine.cases import case

A, B = Parameter("a", (5,)), Parameter("b", (2, 2), "bfloat16")
# What differs on one rank, and whether that must be refused.
DIVERGENCES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "shape", "parameter": "a", "value": (6,)}, "refuse"),
    ({"kind": "shape", "parameter": "a", "value": (5,)}, "accept"),
    ({"kind": "dtype", "parameter": "b", "value": "float16"}, "refuse"),
    ({"kind": "id", "parameter": "a", "value": "z"}, "refuse"),
    ({"kind": "order"}, "refuse"),
    ({"kind": "shard_numel", "parameter": "a", "value": 1}, "refuse"),
    ({"kind": "shard_numel", "parameter": "a", "value": 0}, "accept"),
    ({"kind": "extra", "value": (3,)}, "refuse"),
    ({"kind": "missing", "parameter": "b"}, "refuse"),
    ({"kind": "refuses", "parameter": "a"}, "refuse"),
]


@pytest.mark.parametrize(("divergence", "answer"), DIVERGENCES, ids=[str(d) for d, _ in DIVERGENCES])
def test_divergent_ranks_are_decided_from_the_case(divergence: dict[str, Any], answer: str) -> None:
    told = wanted(case(["register"], A, B, divergences=(Divergence(1, **divergence),)), None, "gloo")
    assert told[0] == answer
    assert answer == "accept" or told[1].startswith("rank 1 ")


def test_one_rank_alone_cannot_differ_in_shape_or_order() -> None:
    alone = case(["register"], A, B, ranks=(0,), divergences=(Divergence(0, "order"),))
    assert wanted(alone, None, "gloo")[0] == "accept"


@pytest.mark.parametrize("policy", [("refuse", "no scalars", "link"), ("unspecified", "", ""), ("accept", "", "")])
def test_a_policy_decides_where_ranks_agree(policy: tuple[str, str, str]) -> None:
    assert wanted(case(["register"]), policy, "gloo") == policy


@pytest.mark.parametrize("policy", [None, ("refuse", "no", ""), ("accept", "", ""), ("unspecified", "it depends", "")])
def test_what_the_backend_cannot_carry_is_not_demanded(policy: tuple[str, str, str] | None) -> None:
    differs = (Divergence(1, "dtype", "w", "int8"),)
    for divergences in ((), differs):
        told = case(["register"], Parameter("w", (3,), "uint16"), divergences=divergences)
        assert wanted(told, policy, "gloo") == ("unspecified", "gloo does not carry uint16", "")


def test_a_policy_that_leaves_a_case_open_is_asked_before_how_ranks_differ() -> None:
    told = case(["register"], A, divergences=(Divergence(1, "shape", "a", (6,)),))
    assert wanted(told, ("unspecified", "nothing is compared", ""), "gloo")[0] == "unspecified"
    assert wanted(told, ("accept", "", ""), "gloo")[0] == "refuse"


def test_what_was_there_before_is_known_after_an_update() -> None:
    told = case(["register", "gather", "update", "gather", "save", "update", "load", "gather"], A)
    first, second, third = (as_bytes(full_bits(told, A, written)) for written in ("registered", 2, 5))
    earlier = [step.earlier.get("a") for step in expectations(told, None, "gloo")]
    assert [earlier[1], earlier[3], earlier[7]] == [None, (first,), (first, third)]
    assert second not in earlier[7]  # type: ignore[operator]  # it is one: see above


def test_a_gather_shows_what_was_written_last() -> None:
    told = case(["register", "gather", "update", "gather", "save", "update", "load", "gather"], A)
    seen = [step.results.get("a") for step in expectations(told, None, "gloo")]
    first, second = (as_bytes(full_bits(told, A, written)) for written in ("registered", 2))
    assert [seen[1], seen[3], seen[4], seen[7]] == [first, second, second, second]
    assert first != second


def test_tied_parameters_are_written_together() -> None:
    tied = Parameter("t", (5,), tied_to="a")
    told = Case(
        (Group("main", (0, 1)),), (A, tied), (Operation("register"), Operation("update", ("t",)), Operation("gather"))
    )
    results = expectations(told, None, "gloo")[2].results
    assert results["a"] == results["t"] == as_bytes(full_bits(told, A, 1))


def test_a_reduced_shard_holds_the_sum_of_all_rounds_and_zeros() -> None:
    told = case(["register", "accumulate", "reduce"], A)
    total = sum(gradient(told, A, index, rank) for index in (1, 2) for rank in (0, 1))
    shards = expectations(told, None, "gloo")[2].per_rank
    joined = b"".join(shard["a"] for shard in shards)
    assert np.array_equal(decode(np.frombuffer(joined, np.uint32), "float32"), [*total, 0.0])


def test_a_norm_is_that_of_the_last_reduce_only() -> None:
    told = case(["register", "reduce", "reduce", "norm"], A)
    total = gradient(told, A, 2, 0) + gradient(told, A, 2, 1)
    assert expectations(told, None, "gloo")[3].scalar == float(np.sqrt((total**2).sum()))


def test_a_mean_divides_exactly() -> None:
    told = case(
        ["register"], A, ranks=(0, 1, 2), program=(Operation("register"), Operation("reduce", reduction="mean"))
    )
    total = sum(gradient(told, A, 1, rank) for rank in range(3))
    joined = b"".join(shard["a"] for shard in expectations(told, None, "gloo")[1].per_rank)
    assert np.array_equal(decode(np.frombuffer(joined, np.uint32), "float32")[:5] * 3, total)


def test_frozen_and_tied_parameters_have_no_gradient() -> None:
    told = case(["register", "reduce"], A, Parameter("f", (2,), frozen=True), Parameter("t", (5,), tied_to="a"))
    assert set(expectations(told, None, "gloo")[1].per_rank[0]) == {"a"}
