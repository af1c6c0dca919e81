"""Right at the edge of what a law accepts: one step further is a planted fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from invariants import Buffer, Call, Cost, Evidence, Place, RankStory, Seen, Step, Subject, find, judge
from invariants.views import Reduced, Said, must_match_owned, said
from reference import Bucketed, FlatPadded, InBucket, encode
from tests.invariants.good import (
    CACHED,
    FORWARD,
    GATHER,
    LAYOUT,
    LOAD,
    NORM,
    PREFETCH,
    REDUCE,
    REDUCE_AGAIN,
    REGISTER,
    UPDATE,
    WAIT,
    Break,
    bits_of,
    both,
    calls,
    change,
    change_second,
    claim,
    expect,
    flipped,
    good_evidence,
    only,
    result,
    subject,
    until,
)
from tests.invariants.planted.layout import IN_BUCKETS
from tests.invariants.planted.life import between

# A gather that receives into a list of three, and one that is served without a collective, wrongly.
THREE = Call("all_gather", (Buffer(3, "float32", True, 10),), (Buffer(2, "float32", True, 500),) * 3)
SUMMED = Call("all_reduce", (Buffer(1, "float64", True, 50),), (Buffer(1, "float64", True, 50),))
SERVED_WRONG = change(CACHED, 1, results=flipped("a", 0))


def clipped(scalar: float) -> Break:
    """The norm's step is a clip, where the model's norm is 5."""
    return both(expect(NORM, scalar=5.0), change(NORM, None, kind="clip", scalar=5.0), change(NORM, 1, scalar=scalar))


def shard_of(padding: int) -> dict[str, Seen]:
    return {"a": Seen("float32", (3,), bytes([1, 2, padding]))}


def died(evidence: Evidence) -> Evidence:
    """Rank 1, before its first step, whatever the poison."""
    second = died(evidence.second) if evidence.second else None
    return replace(evidence, ranks=(evidence.ranks[0], RankStory(5, "signalled", ())), second=second)


def norm_is(scalar: float) -> Break:
    return change(NORM, None, scalar=scalar)


HELD: list[tuple[str, str, Break]] = [
    ("valid-means-complete", "what a prefetch before an accumulate has brought", between("accumulate")),
    ("valid-means-complete", "what a prefetch of its other name has brought", between("accumulate", first="c")),
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
    ("secondary-equals-primary", "wrong, but not as it was before", change(GATHER, 1, results=flipped("a", 0))),
    ("secondary-equals-primary", "nothing at all", change(GATHER, 1, results={})),
    ("secondary-equals-primary", "too short", change(GATHER, 1, results=result("a", bits=bytes(8)))),
    ("equal-counts-and-dtypes", "calls of two kinds, which are no partners", change(GATHER, 1, cost=calls(SUMMED))),
    (
        "padding-unobservable",
        "a shard that a registration returned, padding and all",
        both(change(REGISTER, 1, results=shard_of(0)), change_second(REGISTER, 1, results=shard_of(7))),
    ),
    ("padding-unobservable", "a rank that died the same way twice", died),
    ("reshard-identity", "a load that returns nothing", expect(LOAD, results={"a": bits_of("a", LOAD)})),
    ("equal-counts-and-dtypes", "a list of more buffers than ranks", change(GATHER, None, cost=calls(THREE))),
    ("valid-means-complete", "wrong where all is open", both(SERVED_WRONG, expect(CACHED, wanted="unspecified"))),
    ("valid-means-complete", "as near as rounding goes", both(SERVED_WRONG, expect(CACHED, room={"a": 1.0}))),
    (
        "valid-means-complete",
        "wrong, but nobody said that it is there",
        both(SERVED_WRONG, *(change(index, None, available={}) for index in (REGISTER, WAIT, UPDATE, GATHER))),
    ),
    (
        "valid-means-complete",
        "what this rank must see",
        expect(CACHED, results={}, per_rank=({"a": bits_of("a", CACHED)}, {"a": bits_of("a", CACHED)})),
    ),
    ("training-parity", "a norm as near as rounding goes", clipped(5.0 + 5.0 * 2**-23)),
    ("training-parity", "a norm in its room", both(expect(NORM, scalar_room=1.0), clipped(5.9))),
    (
        "valid-means-complete",
        "a prefetch of what a forward may have gathered",
        both(
            change(GATHER, None, kind="forward", results={}, available={}),
            change(CACHED, None, kind="prefetch", results={}, available={"a": True}),
            change(CACHED, 1, began=99.0),
        ),
    ),
    ("norm-matches-unsharded", "nothing where nothing is", both(expect(NORM, scalar=0.0), norm_is(0.0))),
    ("norm-matches-unsharded", "a norm in its room", both(expect(NORM, scalar=5.0, scalar_room=1.0), norm_is(6.0))),
    ("reduced-exactly-once", "something in the padding", change(REDUCE, 1, results=flipped("a", 9))),
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


def test_what_was_served_without_a_collective_was_said_to_be_there() -> None:
    assert [item.available for item in said(good_evidence()) if item.served] == [True, True]


def test_every_rank_that_was_late_is_named() -> None:
    item = Said(Step(2, "prefetch", ("a",), 0, 3), good_evidence().subjects["a"], True, waiting_for=(1, 2))
    (violation,) = find("valid-means-complete").check(item)
    assert violation.observed == "available after a prefetch that rank 1, 2 had not begun"


def test_a_loss_has_no_room_for_rounding() -> None:
    almost = change(FORWARD, 1, scalar=12.5 * (1 + 2**-52))
    assert judge(find("training-parity"), almost(good_evidence())).outcome == "broken"


def test_what_was_never_said_to_be_there_is_new_also_behind_an_unknown_parameter() -> None:
    silent = change(REGISTER, None, available={})
    early = both(change(PREFETCH, 0, available={"unknown": True, "a": True}), change(PREFETCH, 1, began=9.0))
    judgement = judge(find("valid-means-complete"), both(silent, early)(good_evidence()))
    assert [(violation.parameter, violation.rank) for violation in judgement.violations] == [("a", 0)]


def test_one_element_each_is_not_an_empty_shard() -> None:
    whole = both(*(subject(id, layouts={2: FlatPadded((2,), 2)}) for id in "abc"))
    assert judge(find("empty-is-neutral"), whole(good_evidence())).judged == 0


def test_on_one_rank_a_sum_is_a_mean() -> None:
    alone = (change(index, None, world_size=1) for index in (REDUCE, REDUCE_AGAIN))
    whole = (subject(id, layouts={1: FlatPadded((5,), 1)}) for id in "abc")
    assert judge(find("sum-against-mean"), both(only("reduce"), *alone, *whole)(good_evidence())).judged == 0


def test_a_gradient_has_a_dtype_of_its_own() -> None:
    judgement = judge(find("dtype-kept"), subject("a", grad_dtype="bfloat16")(good_evidence()))
    assert [(violation.step, violation.expected) for violation in judgement.violations] == [
        (step, "bfloat16") for _ in range(2) for step in (REDUCE, REDUCE_AGAIN)
    ]
