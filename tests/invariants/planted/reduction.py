"""Gradients and norms that come out wrong. b has one element, so rank 1 owns nothing of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from invariants import Evidence, Step
from reference import FlatPadded
from tests.invariants.good import (
    ACCUMULATE,
    NORM,
    REDUCE,
    REDUCE_AGAIN,
    REGISTER,
    Break,
    both,
    change,
    expect,
    flipped,
    lost,
    norm_of,
    only,
    reduced_of,
    result,
    until,
    without_result,
)
from tests.invariants.plants import Plant, Plants, Unjudged


def _times(factor: float) -> Break:
    """Every element of a's reduced shard times a factor."""

    def scaled(step: Step) -> object:
        numbers = np.frombuffer(step.results["a"].bits, "<f4") * np.float32(factor)
        return result("a", bits=numbers.astype("<f4").tobytes())(step)

    return change(REDUCE, None, results=scaled)


def _holds(*indices: int) -> Break:
    """a's reduced shard is made of these steps' gradients only."""
    return both(*(change(REDUCE, r, results=result("a", bits=reduced_of("a", indices)[r])) for r in (0, 1)))


def _even(evidence: Evidence) -> Evidence:
    layouts = {id: {2: FlatPadded((4,), 2)} for id in evidence.subjects}
    return replace(evidence, subjects={id: replace(s, layouts=layouts[id]) for id, s in evidence.subjects.items()})


def _no_expectation(index: int) -> Break:
    return expect(index, per_rank=(), scalar=None)


_RAISES = change(REDUCE, 1, outcome="raised", error="RuntimeError: max of nothing", results={})
_SHORT = change(REDUCE, 1, results=result("a", bits=b"12345678"))
_OPEN = expect(REGISTER, wanted="unspecified")
_NORM = norm_of((ACCUMULATE, REDUCE))

_TOO_SHORT = both(
    *(change(index, None, results=result(id, bits=b"1234")) for index in (REDUCE, REDUCE_AGAIN) for id in "a"),
    *(change(index, None, results=without_result("b")) for index in (REDUCE, REDUCE_AGAIN)),
)


def _rank_without_elements(evidence: Evidence) -> Evidence:
    """Only b on rank 1, of which that rank owns nothing, was reduced."""
    one = change(REDUCE, 1, results=without_result("a"))(only("reduce")(evidence))
    return replace(one, ranks=one.ranks[1:])


PLANTED: Plants = {
    "padding-zero-after-reduce": (
        Plant(
            "next gradient",
            change(REDUCE, 1, results=flipped("a", 10)),
            "0x00010000 in the padding, at shard offset 2",
            1,
            "a",
            REDUCE,
        ),
        Plant(
            "only padding",
            change(REDUCE_AGAIN, 1, results=flipped("b", 3)),
            "in the padding, at shard offset 0",
            1,
            "b",
            REDUCE_AGAIN,
        ),
        Plant("negative zero", change(REDUCE, 1, results=result("b", bits=b"\0\0\0\x80")), "0x80000000", 1, "b"),
    ),
    "reduced-exactly-once": (
        Plant(
            "one bit",
            change(REDUCE, 0, results=flipped("a", 4)),
            "at element 1 (shard offset 1, 1 wrong)",
            0,
            "a",
            REDUCE,
            1,
        ),
        Plant(
            "on a later rank",
            change(REDUCE, 1, results=flipped("a", 4)),
            "at element 4 (shard offset 1",
            1,
            "a",
            REDUCE,
            4,
        ),
        Plant("twice", _times(2), "at element 0", 0, "a", REDUCE, 0),
        Plant("not at all", change(REDUCE, 0, results=without_result("b")), "reduce returned nothing", 0, "b"),
        Plant("too short", _SHORT, "8 bytes of float32", 1, "a"),
        Plant("raises", _RAISES, "reduce raised: RuntimeError: max of nothing", 1, "a", REDUCE),
        Plant("lost", lost(REDUCE, 0), "reduce lost", 0, "a", REDUCE),
    ),
    "sum-against-mean": (
        Plant("mean for sum", _times(0.5), "each element divided by 2: the mean", 0, "a", REDUCE),
        Plant("sum for mean", _times(2), "2 times each element: the sum", 1, "a", REDUCE),
    ),
    "accumulation-adds": (
        Plant("only the last", _holds(REDUCE), "at element 0", 0, "a", REDUCE),
        Plant("only the first", _holds(ACCUMULATE), "at element 3", 1, "a", REDUCE),
        Plant("raises", _RAISES, "reduce raised", 1, "a"),
    ),
    "norm-matches-unsharded": (
        Plant("of one rank", change(NORM, 1, scalar=_NORM / 2), f"norm {_NORM / 2}", 1, None, NORM),
        Plant("counted twice", change(NORM, 0, scalar=_NORM * 2**0.5), "norm ", 0),
        Plant("padding within", change(NORM, None, scalar=float("nan")), "norm nan", 0),
        Plant("off by a thousandth", change(NORM, 1, scalar=_NORM * 1.001), "norm ", 1),
        Plant("no number", change(NORM, 1, scalar=None), "norm None", 1),
        Plant("raises", change(NORM, 0, outcome="raised", error="E: x"), "norm raised: E: x", 0),
    ),
    "empty-is-neutral": (
        Plant("raises", _RAISES, "reduce raised: RuntimeError: max of nothing", 1, None, REDUCE),
        Plant("not a number", change(NORM, 1, scalar=float("nan")), "norm nan", 1, None, NORM),
        Plant("infinite", change(NORM, 0, scalar=float("-inf")), "norm -inf", 0),
        Plant("norm raises", change(NORM, 0, outcome="raised", error="E: x"), "norm raised", 0),
        Plant("not zero", change(REDUCE, 1, results=flipped("b", 0)), "a shard that owns nothing is not zero", 1, "b"),
    ),
}

UNJUDGED: Unjudged = {
    "padding-zero-after-reduce": (_OPEN, only("gather"), both(_even, only("reduce"))),
    "reduced-exactly-once": (_OPEN, only("gather"), both(*map(_no_expectation, (REDUCE, REDUCE_AGAIN)))),
    "sum-against-mean": (_OPEN, only("gather"), _TOO_SHORT, both(until(REDUCE), _rank_without_elements)),
    "accumulation-adds": (_OPEN, only("reduce"), only("accumulate")),
    "norm-matches-unsharded": (_OPEN, only("reduce"), _no_expectation(NORM)),
    "empty-is-neutral": (_OPEN, only("gather"), both(_even, only("reduce", "norm"))),
}
