"""What laws are given to look at: only what the model knows and demands, and all of it."""

from __future__ import annotations

from invariants import Cost, Evidence, Seen
from invariants.views import Landed, Reduced, gathered, landed, reductions
from tests.invariants.good import (
    CACHED,
    GATHER,
    PREFETCH,
    REDUCE,
    REGISTER,
    WAIT,
    all_gather,
    bits_of,
    both,
    calls,
    change,
    expect,
    good_evidence,
    seen,
    subject,
)

UNKNOWN = Seen("float32", (5,), bytes(20), strides=(1,), storage=100)


def reduced(evidence: Evidence, index: int) -> list[Reduced]:
    """What rank 0 must have got from that step."""
    return [item for item in reductions(evidence) if (item.step.index, item.step.rank) == (index, 0)]


def where(evidence: Evidence) -> list[tuple[int, str]]:
    """Step and parameter of each result that came with a collective, on rank 0."""
    return [(item.step.index, item.subject.id) for item in landed(evidence) if item.step.rank == 0]


def item_of(evidence: Evidence, index: int) -> Landed:
    return next(item for item in landed(evidence) if item.step.index == index)


def test_each_reduced_shard_has_the_room_of_its_parameter() -> None:
    evidence = expect(REDUCE, room={"a": 0.5})(good_evidence())
    assert [(item.subject.id, item.room) for item in reduced(evidence, REDUCE)] == [("a", 0.5), ("b", 0.0)]


def test_a_reduce_is_about_the_parameters_that_the_model_knows_in_this_world() -> None:
    more = change(REDUCE, None, parameters=("unknown", "a", "b"))(good_evidence())
    assert [item.subject.id for item in reduced(more, REDUCE)] == ["a", "b"]
    elsewhere = subject("a", layouts={})(good_evidence())
    assert [item.subject.id for item in reduced(elsewhere, REDUCE)] == ["b"]


def test_no_reduce_is_demanded_from_the_first_open_step_on() -> None:
    assert reduced(expect(REDUCE, wanted="unspecified")(good_evidence()), REDUCE) == []
    assert reduced(expect(REDUCE + 1, wanted="unspecified")(good_evidence()), REDUCE) != []


def test_a_result_landed_where_the_model_knows_it_in_this_world() -> None:
    first = [(WAIT, "a"), (WAIT, "b"), (GATHER, "a")]
    open_ = expect(CACHED, wanted="unspecified")
    assert where(open_(good_evidence())) == first
    more = change(GATHER, None, results=lambda step: {"unknown": UNKNOWN, **step.results})
    assert where(both(open_, more)(good_evidence())) == first
    assert where(both(open_, subject("a", layouts={}))(good_evidence())) == [(WAIT, "b")]
    empty = change(GATHER, None, results={"a": seen("a", b"")})
    assert where(both(open_, empty)(good_evidence())) == first[:2]


def test_a_result_knows_its_own_all_gathers_and_where_all_have_landed() -> None:
    assert (item_of(good_evidence(), WAIT).calls, item_of(good_evidence(), WAIT).ever) == ((), {100, 200})
    assert item_of(good_evidence(), GATHER).calls == (all_gather("a"),)
    assert item_of(good_evidence(), GATHER).ever == {100, 200}


def test_a_tied_parameter_comes_with_the_all_gather_of_its_memory() -> None:
    tied = change(GATHER, None, parameters=("c",), results={"c": seen("c", bits_of("c", GATHER))})
    assert item_of(tied(good_evidence()), GATHER).calls == (all_gather("a"),)
    alone = change(PREFETCH, None, parameters=("a", "c"), cost=calls(all_gather("a")))
    assert item_of(alone(good_evidence()), WAIT).calls == (all_gather("a"),)


def test_a_result_without_an_all_gather_of_its_own_has_none() -> None:
    before = both(change(REGISTER, None, cost=Cost((all_gather("b"),))), change(PREFETCH, None, cost=Cost()))
    assert (item_of(before(good_evidence()), WAIT).calls, item_of(before(good_evidence()), WAIT).ever) == ((), {200})


def given(evidence: Evidence, index: int) -> list[tuple[str, float]]:
    """Parameter and room of each result that rank 0 must have got from that step."""
    mine = (item for item in gathered(evidence) if (item.step.index, item.step.rank) == (index, 0))
    return [(item.subject.id, item.room) for item in mine]


def test_a_gather_is_about_the_parameters_that_the_model_knows_in_this_world() -> None:
    more = change(WAIT, None, parameters=("unknown", "a", "b"))(good_evidence())
    assert given(more, WAIT) == [("a", 0.0), ("b", 0.0)]
    assert given(subject("a", layouts={})(good_evidence()), WAIT) == [("b", 0.0)]


def test_no_result_is_demanded_from_the_first_open_step_on() -> None:
    evidence = expect(GATHER, wanted="unspecified")(good_evidence())
    assert given(evidence, WAIT) == [("a", 0.0), ("b", 0.0)]
    assert given(evidence, GATHER) == given(evidence, CACHED) == []
