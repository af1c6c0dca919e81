"""Implementations that are right in other ways than ours. No correctness law may accuse one of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from invariants import LAWS, Buffer, Call, Cost, Evidence, RankStory, Seen, Step, find, judge
from reference import Bucketed, FlatPadded, InBucket
from tests.invariants.good import (
    ACCUMULATE,
    GATHER,
    LAYOUT,
    PREFETCH,
    REDUCE,
    REGISTER,
    STEPPED,
    WAIT,
    Break,
    both,
    calls,
    change,
    change_second,
    expect,
    flipped,
    good_evidence,
    norm_of,
    only,
    result,
    subject,
    until,
)

ALL = range(22)
_LISTED = Call(
    "all_gather",
    (Buffer(3, "float32", True, 10),),
    (Buffer(3, "float32", True, 501), Buffer(3, "float32", True, 502)),
)
_SIZES = Call("all_gather", (Buffer(1, "int64", True, 60),), (Buffer(2, "int64", True, 100),))
_UNEVEN = tuple(
    Call(
        "all_gather",
        (Buffer(own, "float32", True, 10),),
        (Buffer(3, "float32", True, 501), Buffer(2, "float32", True, 502)),
    )
    for own in (3, 2)
)
_AS_BYTES = Call("all_gather", (Buffer(12, "uint8", True, 10),), (Buffer(24, "uint8", True, 100),))
_BROADCASTS = tuple(
    Call("broadcast", (Buffer(3, "float32", True, 70),), (Buffer(3, "float32", True, 70),)) for _ in "01"
)


def _every_result(**fields: object) -> Break:
    def other(step: Step) -> dict[str, Seen]:
        return {id: replace(seen, **fields) for id, seen in step.results.items()}

    return both(*(change(index, None, results=other) for index in ALL if index not in (REDUCE, 19)))


def _everywhere(**fields: object) -> Break:
    return both(*(change(index, None, **fields) for index in ALL))


def _one_rank(evidence: Evidence) -> Evidence:
    """World size 1: nothing is sent, and the result may be the shard itself."""
    subjects = {id: replace(one, layouts={1: FlatPadded(one.shape, 1)}) for id, one in evidence.subjects.items()}
    story = only("register", "gather", "update", "use", "wait")(evidence).ranks[0]
    steps = tuple(replace(step, world_size=1, cost=Cost()) for step in story.steps)
    return Evidence(1, subjects, (RankStory(3, "done", steps),), evidence.expected)


def _refuse_what_is_open(evidence: Evidence) -> Evidence:
    raised = change(REGISTER, None, outcome="refused", error="TypeError: no such dtype here")
    return both(until(REGISTER), raised, expect(REGISTER, wanted="unspecified"))(evidence)


def _raise_what_is_open(evidence: Evidence) -> Evidence:
    """The backend does not carry the dtype: whatever comes of it, on whatever rank."""
    open_ = both(*(expect(index, wanted="unspecified") for index in (REGISTER, WAIT, GATHER)))
    raised = change(GATHER, 1, outcome="raised", error="RuntimeError: Invalid scalar type", results={}, cost=Cost())
    wrong = change(WAIT, None, results=lambda step: {id: replace(s, bits=b"") for id, s in step.results.items()})
    prefetch = change(PREFETCH, 1, outcome="raised", error="RuntimeError: Invalid scalar type")
    return both(until(GATHER), open_, raised, wrong, prefetch)(evidence)


def _whole_and_within_one_memory(evidence: Evidence) -> Evidence:
    """Nothing is padded, and the buffer is a part of a larger memory."""
    subjects = evidence.subjects | {"a": replace(evidence.subjects["a"], layouts={2: FlatPadded((4,), 2)}, shape=(4,))}
    call = Call("all_gather", (Buffer(2, "float32", True, 10),), (Buffer(4, "float32", True, 800, 9),))
    seen = Seen("float32", (4,), bytes(16), strides=(1,), offset=9, storage=800, storage_nbytes=400)
    gather = both(only("gather"), change(GATHER, None, results={"a": seen}, cost=Cost((call,))), until(GATHER))
    return both(gather, expect(GATHER, results={"a": bytes(16)}))(replace(evidence, subjects=subjects))


def _out_of_a_bucket(received: int) -> Break:
    """a alone is gathered, from a bucket whose first share holds all of it."""
    call = Call("all_gather", (Buffer(5, "float32", True, 10),), (Buffer(received, "float32", True, 100),))
    return both(
        only("gather"),
        subject("a", layouts={2: InBucket(Bucketed(((5,), (40,)), 2), 0)}),
        change(GATHER, None, cost=Cost((call,))),
        until(GATHER),
    )


def test_a_buffer_for_less_than_all_parts_in_a_bucket_is_accused() -> None:
    law = find("buffer-matches-layout")
    assert judge(law, _out_of_a_bucket(10)(good_evidence())).outcome == "held"
    assert judge(law, _out_of_a_bucket(9)(good_evidence())).outcome == "broken"


def _norm(factor: float) -> Break:
    return change(11, None, scalar=norm_of((9, 10)) * factor)


# Numbers in place of bit patterns after the step, and one of them a little off.
_NUMBERS, _OFF = (np.array(values, "<f4").tobytes() for values in ([0, 1, 2, 3, 4], [0, 1.5, 2, 3, 4]))
_IN_ROOM = both(expect(STEPPED, results={"a": _NUMBERS}), change(STEPPED, None, results=result("a", bits=_OFF)))

RIGHT: dict[str, Break] = {
    "copies everything out": _every_result(storage=900, storage_nbytes=20),
    "gathers into a list": both(
        *(change(i, None, cost=calls(_LISTED)) for i in (GATHER, 14, 18)), _every_result(storage=900)
    ),
    "gathers into a list and recycles its memory": both(
        change(WAIT, None, cost=calls(_LISTED, _LISTED)), _every_result(storage=501, storage_nbytes=20)
    ),
    "gathers parts of two lengths": both(
        change(GATHER, 0, cost=calls(_UNEVEN[0])), change(GATHER, 1, cost=calls(_UNEVEN[1])), _every_result(storage=900)
    ),
    "exchanges sizes first, in memory that the result gets later": both(
        change(GATHER, None, cost=calls(_SIZES, _LISTED))
    ),
    "moves bytes": change(GATHER, None, cost=calls(_AS_BYTES)),
    "broadcasts each part": both(change(GATHER, None, cost=calls(*_BROADCASTS)), _every_result(storage=900)),
    "holds nothing and says so": both(
        _everywhere(available={}), *(change(i, None, cost=Cost((_LISTED,))) for i in (WAIT, GATHER, 7, 14, 18))
    ),
    "is always done when prefetch returns": both(
        change(PREFETCH, None, available={"a": True, "b": True}), change(PREFETCH, 0, seconds=1.0)
    ),
    "has what it was asked for before when it is asked again": both(
        change(WAIT, None, kind="prefetch", results={}, available={"a": True, "b": True}),
        change(WAIT, 1, began=9.0),
        until(WAIT),
    ),
    "gathers everything at registration and keeps it": both(
        change(REGISTER, None, available={"a": True, "b": True}),
        change(PREFETCH, None, available={"a": True, "b": True}, cost=Cost()),
        change(PREFETCH, 1, began=9.0),
    ),
    "allocates, copies and reads back": _everywhere(
        cost=lambda step: replace(step.cost, allocations=9, allocated_bytes=99, copies=9, copied_bytes=99, syncs=9)
    ),
    "has two functions only": only("register", "gather", "update", "use"),
    "has leaders that talk among themselves": change(
        GATHER, 0, cost=lambda step: replace(step.cost, calls=(*step.cost.calls, replace(_SIZES, group=(0,))))
    ),
    "sends messages of its own": change(
        GATHER, 1, cost=lambda step: replace(step.cost, calls=(Call("other", (), ()), *step.cost.calls))
    ),
    "is on one rank": _one_rank,
    "refuses what is left open": _refuse_what_is_open,
    "fails at what is left open": _raise_what_is_open,
    "hands out a part of a larger memory": _whole_and_within_one_memory,
    "fails at an accumulate that is left open": both(
        until(ACCUMULATE),
        expect(ACCUMULATE, wanted="unspecified"),
        change(ACCUMULATE, None, outcome="raised", error="TypeError: no such gradient"),
    ),
    "rounds where the model leaves room": both(_IN_ROOM, expect(STEPPED, room={"a": 1.0})),
    "computes the norm in float32": _norm(1 + 2**-23),
    "rounds the norm down": _norm(1 - 2**-23),
    "gathers one parameter out of a bucket": _out_of_a_bucket(10),
    "has no clock": _everywhere(began=None),
    "says nothing of its layout": both(only("register", "gather"), change(LAYOUT, None, claims={})),
    "reuses one buffer for one parameter after another": both(
        change(WAIT, None, cost=Cost((_LISTED,))),
        change(GATHER, None, cost=Cost((_LISTED,))),
        _every_result(storage=900),
    ),
}


def test_what_is_left_open_may_depend_on_the_poison() -> None:
    good = good_evidence()
    other = change_second(GATHER, 1, results=flipped("a", 0))(good)
    law = find("padding-unobservable")
    assert judge(law, other).outcome == "broken"
    assert judge(law, expect(GATHER, wanted="unspecified")(other)).outcome == "held"


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_accused(name: str) -> None:
    once = RIGHT[name](replace(good_evidence(), second=None))
    evidence = replace(once, second=once)
    accused = [violation for law in LAWS if not law.is_promise for violation in judge(law, evidence).violations]
    assert accused == []
