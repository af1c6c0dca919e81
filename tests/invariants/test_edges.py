"""Right at the edge of what a law accepts: one step further is a planted fault."""

from __future__ import annotations

import pytest

from invariants import Buffer, Call, Cost, Place, Seen, Step, Subject, find, judge
from invariants.views import Reduced, must_match_owned
from reference import Bucketed, FlatPadded, InBucket, encode
from tests.invariants.good import (
    GATHER,
    LAYOUT,
    PREFETCH,
    REGISTER,
    UPDATE,
    Break,
    both,
    calls,
    change,
    claim,
    good_evidence,
    only,
    result,
    subject,
    until,
)
from tests.invariants.planted.layout import IN_BUCKETS

HELD: list[tuple[str, str, Break]] = [
    (
        "buckets-tile",
        "a parameter that ends where its bucket ends",
        both(
            IN_BUCKETS,
            subject("b", shape=(2,), layouts={2: InBucket(Bucketed(((5,), (2,)), 2, 5), 1)}),
            change(LAYOUT, None, claims=claim("b", place=Place(6, 6, 8))),
        ),
    ),
    (
        "buckets-tile",
        "a parameter without elements in a bucket without any",
        both(
            IN_BUCKETS,
            subject("b", shape=(0,), layouts={2: InBucket(Bucketed(((5,), (0,)), 2, 5), 1)}),
            change(LAYOUT, None, claims=claim("b", place=Place(6, 6, 6))),
        ),
    ),
    (
        "buffer-matches-layout",
        "a strided buffer, whose bytes nobody knows",
        change(
            GATHER,
            None,
            cost=calls(
                Call("all_gather", (Buffer(3, "float32", True, 10),), (Buffer(6, "float32", False, 100),)),
            ),
        ),
    ),
    (
        "buffer-matches-layout",
        "a dtype of unknown size",
        both(until(GATHER), change(GATHER, None, results=result("a", dtype="float8_unheard_of"))),
    ),
    (
        "refused-everywhere",
        "one kind of error, about different things",
        both(
            until(REGISTER),
            change(REGISTER, 0, outcome="refused", error="ValueError: a: too narrow"),
            change(REGISTER, 1, outcome="refused", error="ValueError: b: too wide"),
        ),
    ),
    (
        "padded-uneven-accepted",
        "as many elements on each rank, in a bucket with others",
        both(*(subject(id, layouts={2: InBucket(Bucketed(((1,), (2,), (1,)), 2), 1)}) for id in "abc")),
    ),
    ("bounded-time", "as long as there was", change(UPDATE, 1, seconds=10.0)),
    (
        "valid-means-complete",
        "a parameter said to be there at the moment the last rank began",
        both(change(PREFETCH, 0, available={"a": True, "b": True}, began=2.0), change(PREFETCH, 1, began=2.5)),
    ),
    (
        "valid-means-complete",
        "a parameter said to be there before a rank began that holds nothing of it",
        both(change(PREFETCH, 0, available={"b": True}), change(PREFETCH, 1, began=9.0)),
    ),
]


@pytest.mark.parametrize(("law", "edge"), [pytest.param(law, edge, id=f"{law}: {name}") for law, name, edge in HELD])
def test_just_right(law: str, edge: Break) -> None:
    judgement = judge(find(law), edge(good_evidence()))
    assert (judgement.outcome, judgement.violations) == ("held", ())


def test_a_buffer_too_short_may_lie_anywhere_in_its_memory() -> None:
    call = Call("all_gather", (Buffer(3, "float32", True, 10),), (Buffer(5, "float32", True, 100, 50),))
    moved = change(GATHER, None, cost=Cost((call,)), results=result("a", offset=50, storage_nbytes=400))
    judgement = judge(find("buffer-matches-layout"), both(only("gather"), until(GATHER), moved)(good_evidence()))
    assert [violation.observed for violation in judgement.violations] == ["a gather buffer of 20 bytes"] * 2


def shard(values: list[int], dtype: str) -> bytes:
    return encode(values, dtype).tobytes()


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [([1, 2, 0], 0), ([1, 3, 0], 0), ([1, 4, 0], 1), ([1, 3, 99], 0)],
    ids=["exact", "as far as rounding goes", "further", "padding is another law's"],
)
def test_a_rounded_gradient_is_compared_in_its_own_dtype_without_the_padding(seen: list[int], wrong: int) -> None:
    layout = FlatPadded((5,), 2)
    parameter = Subject("a", (5,), "float32", {2: layout}, grad_dtype="bfloat16")
    step = Step(0, "reduce", ("a",), 1, 2)
    bits = shard(seen, "bfloat16")
    item = Reduced(step, parameter, layout, shard([1, 2, 0], "bfloat16"), Seen("bfloat16", (3,), bits), 1.0)
    assert len(list(must_match_owned(find("training-parity"), item))) == wrong
