"""Wrong results, and memory that should have been left alone. Parameter a: elements of 4 bytes."""

from __future__ import annotations

from dataclasses import replace

from invariants import Evidence, Held
from tests.invariants.good import (
    CACHED,
    FORWARD,
    GATHER,
    REDUCE,
    REGISTER,
    SAVE,
    UPDATE,
    USE,
    WAIT,
    Break,
    bits_of,
    both,
    change,
    change_second,
    expect,
    flipped,
    lost,
    only,
    result,
    without_result,
)
from tests.invariants.plants import Plant, Plants, Unjudged

_OPEN = expect(REGISTER, wanted="unspecified")
_RAISES = change(GATHER, 1, outcome="raised", error="RuntimeError: Message truncated\nlong story", results={})


def _second_ends(ended: str) -> Break:
    def broken(evidence: Evidence) -> Evidence:
        first, other = evidence.second.ranks
        lost_rank = replace(other, ended=ended, steps=())
        return replace(evidence, second=replace(evidence.second, ranks=(first, lost_rank)))

    return broken


def _once(evidence: Evidence) -> Evidence:
    return replace(evidence, second=None)


PLANTED: Plants = {
    "round-trip": (
        Plant(
            "one bit of a NaN",
            change(GATHER, 1, results=flipped("a", 0)),
            "0x7f800003 at element 0 (1 of 5 wrong)",
            1,
            "a",
            GATHER,
            0,
        ),
        Plant("last byte", change(WAIT, 0, results=flipped("a", 19)), "at element 4 (1 of 5 wrong)", 0, "a", WAIT, 4),
        Plant("stale", change(GATHER, None, results=result("a", bits=bits_of("a", WAIT))), "(5 of 5 wrong)", 0),
        Plant(
            "padding kept",
            change(GATHER, 0, results=result("a", bits=bits_of("a", GATHER) + bytes(4))),
            "24 bytes of float32 in shape (5,)",
            0,
            "a",
        ),
        Plant("wrong on a wait", change(WAIT, 1, results=flipped("b", 2)), "at element 0", 1, "b", WAIT),
        Plant("nothing returned", change(GATHER, 0, results=without_result("a")), "gather returned nothing", 0, "a"),
        Plant("raises", _RAISES, "gather raised: RuntimeError: Message truncated", 1, "a", GATHER),
        Plant("lost", lost(GATHER, 0), "gather lost: the rank did not come back in time", 0, "a", GATHER),
        Plant("aborts", lost(WAIT, 1, "signalled", "was killed by signal 6"), "the rank was killed by signal 6", 1),
    ),
    "shape-restored": (
        Plant("flat", change(GATHER, 1, results=result("a", shape=(1, 5))), "shape (1, 5)", 1, "a", GATHER),
        Plant("padded", change(WAIT, 0, results=result("a", shape=(6,))), "shape (6,)", 0, "a", WAIT),
        Plant("scalar with a dim", change(WAIT, 0, results=result("b", shape=())), "shape ()", 0, "b"),
    ),
    "dtype-kept": (
        Plant("gathered as sent", change(GATHER, 0, results=result("a", dtype="bfloat16")), "bfloat16", 0, "a", GATHER),
        Plant("reduced as sent", change(REDUCE, 1, results=result("a", dtype="float64")), "float64", 1, "a", REDUCE),
    ),
    "padding-unobservable": (
        Plant("result", change_second(GATHER, 1, results=flipped("a", 3)), "other bits of gather", 1, "a", GATHER),
        Plant("reduced", change_second(REDUCE, 1, results=flipped("a", 11)), "other bits of reduce", 1, "a", REDUCE),
        Plant("artefact", change_second(SAVE, 0, results=flipped("b", 0)), "other bits of save", 0, "b"),
        Plant("number", change_second(FORWARD, 0, scalar=float("nan")), "forward nan under another poison", 0),
        Plant("outcome", change_second(UPDATE, 0, outcome="raised", error="E: x"), "update raised: E: x under", 0),
        Plant("lost without a trace", _second_ends("signalled"), "the rank signalled under another poison", 5),
    ),
    "guard-intact": (
        Plant(
            "in a gather", change(GATHER, 1, guards=("a",)), "around the input changed during gather", 1, "a", GATHER
        ),
        Plant("in a step that raised", both(_RAISES, change(GATHER, 1, guards=("b",))), "during gather", 1, "b"),
    ),
    "input-not-mutated": (
        Plant("gradient", change(REDUCE, 0, mutated=("b",)), "the input changed during reduce", 0, "b", REDUCE),
        Plant("full parameter", change(REGISTER, 1, mutated=("a",)), "the input changed during register", 1, "a"),
    ),
    "earlier-result-intact": (
        Plant(
            "overwritten",
            change(USE, 0, held=(Held("a", GATHER, released=False, first_wrong=3),)),
            f"element 3 of the result of step {GATHER} changed",
            0,
            "a",
            USE,
            3,
        ),
        Plant(
            "by another gather", change(CACHED, 1, held=(Held("b", WAIT, False, 0),)), f"step {WAIT} changed", 1, "b"
        ),
    ),
}

UNJUDGED: Unjudged = {
    "round-trip": (
        _OPEN,
        only("register", "update"),
        both(only("gather"), *(expect(i, results={}) for i in range(22))),
    ),
    "shape-restored": (
        _OPEN,
        only("register"),
        both(only("gather"), change(GATHER, None, outcome="raised"), *(change(i, None, results={}) for i in range(22))),
    ),
    "dtype-kept": (_OPEN, only("register", "norm")),
    "padding-unobservable": (_once,),
    "guard-intact": (both(lost(GATHER, 0), lost(GATHER, 1)),),
    "input-not-mutated": (both(lost(GATHER, 0), lost(GATHER, 1)),),
    "earlier-result-intact": (only("gather", "release"), both(only("use"), change(USE, None, held=()))),
}
