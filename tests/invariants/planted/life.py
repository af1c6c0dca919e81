"""Buffers that are too small, too early, too late or in use. Storage 100 holds 24 bytes."""

from __future__ import annotations

from dataclasses import replace

from invariants import Buffer, Call, Cost, Evidence
from tests.invariants.good import (
    CACHED,
    GATHER,
    INVALIDATE,
    PREFETCH,
    RELEASE,
    RELOADED,
    STEPPED,
    UPDATE,
    WAIT,
    Break,
    all_gather,
    bits_of,
    both,
    calls,
    change,
    expect,
    flipped,
    only,
    result,
    until,
)
from tests.invariants.plants import Plant, Plants, Unjudged


def _received(numel: int, dtype: str = "float32", offset: int = 0) -> Break:
    call = Call("all_gather", (Buffer(3, dtype, True, 10),), (Buffer(numel, dtype, True, 100, offset),))
    return change(GATHER, 0, cost=calls(call))


def _early(rank: int, id: str) -> Break:
    """Available after a prefetch that the other rank begins much later."""
    return both(
        change(PREFETCH, rank, available=lambda step: {**step.available, id: True}, seconds=0.01),
        change(PREFETCH, 1 - rank, began=PREFETCH + 0.9),
        until(PREFETCH),
    )


def _again(first: float) -> Break:
    """The wait becomes a second prefetch, after which rank 0 says that all is there; rank 1 has begun the first one at
    that time or not, and not the second.
    """
    return both(
        change(WAIT, None, kind="prefetch", results={}, available={"a": True, "b": True}),
        change(WAIT, 1, available={"a": False, "b": False}, began=11.0),
        change(PREFETCH, 1, began=first),
        until(WAIT),
    )


def between(kind: str, first: str = "a") -> Break:
    """A prefetch of `first`, then that, then a prefetch of a, which rank 0 says is there; rank 1 has not begun it."""
    return both(
        change(PREFETCH, None, parameters=(first,), available={first: False}),
        change(WAIT, None, kind=kind, results={}, available={}),
        change(UPDATE, None, kind="prefetch", available={"a": True}),
        change(UPDATE, 1, available={"a": False}, began=11.0),
        until(UPDATE),
    )


def _second_prefetch(recv: int, *, late: bool) -> Break:
    """The wait becomes a second prefetch, which receives into storage `recv`; rank 1 begins the first late, or not."""
    into = Call("all_gather", (Buffer(3, "float32", True, 10),), (Buffer(6, "float32", True, recv, 4),))
    second = change(WAIT, None, kind="prefetch", results={}, cost=Cost((into,)))
    return both(second, change(PREFETCH, 1, began=10.0 if late else 2.1), until(WAIT))


_OVERLAPPING = Call(
    "all_gather",
    (Buffer(3, "float32", True, 10), Buffer(1, "float32", True, 20)),
    (Buffer(6, "float32", True, 400), Buffer(2, "float32", True, 400, 5)),
)
_BYTES_AND_WORDS = Call(
    "all_gather",
    (Buffer(3, "float32", True, 10), Buffer(4, "uint8", True, 20)),
    (Buffer(6, "float32", True, 400), Buffer(8, "uint8", True, 400, 23)),
)

_STALE = {"a": True}


def _tied_copy(bits: bytes) -> Break:
    """Rank 1 gathers c, which is tied to a, and sees these bits."""
    gather = change(GATHER, 1, parameters=("c",), results=lambda step: {"c": step.results["a"]})
    return both(gather, change(GATHER, 1, results=result("c", bits=bits)))


def _one_buffer(evidence: Evidence) -> Evidence:
    """The first prefetch gathers a alone."""
    return change(PREFETCH, None, parameters=("a",), cost=calls(all_gather("a")))(evidence)


def _no_clock(evidence: Evidence) -> Evidence:
    ranks = tuple(
        replace(story, steps=tuple(replace(step, began=None) for step in story.steps)) for story in evidence.ranks
    )
    return replace(evidence, ranks=ranks)


PLANTED: Plants = {
    "buffer-matches-layout": (
        Plant("logical numel", _received(5), "a gather buffer of 20 bytes", 0, "a", GATHER),
        Plant("narrower dtype", _received(6, "bfloat16"), "a result in bytes [0, 20)", 0, "a", GATHER),
        Plant("shifted", _received(6, offset=1), "a result in bytes [0, 20) of its memory", 0),
        Plant("result beyond", change(GATHER, 1, results=result("a", offset=2)), "bytes [8, 28)", 1, "a"),
        Plant("kept too short", both(_received(5), change(CACHED, 0, results=result("a", offset=0))), "20 bytes", 0),
    ),
    "valid-means-complete": (
        Plant("at launch", _early(0, "a"), "available after a prefetch that rank 1 had not begun", 0, "a", PREFETCH),
        Plant("on the other rank", _early(1, "b"), "that rank 0 had not begun", 1, "b", PREFETCH),
        Plant("at a second launch", _again(10.0), "that rank 1 had not begun", 0, "a", WAIT),
        Plant("at a launch after a release", between("release"), "that rank 1 had not begun", 0, "a", UPDATE),
        Plant("after invalidate", change(INVALIDATE, 1, available=_STALE), "available right after invalidate", 1, "a"),
        Plant(
            "served stale",
            change(CACHED, 0, results=result("a", bits=bits_of("a", WAIT))),
            "gather returned stale or incomplete bits without communicating",
            0,
            "a",
            CACHED,
        ),
        Plant(
            "served unfinished",
            both(change(PREFETCH, 1, available={"a": True, "b": True}), change(WAIT, 1, results=flipped("b", 1))),
            "wait returned stale or incomplete bits",
            1,
            "b",
            WAIT,
        ),
    ),
    "freed-after-last-release": (
        Plant("kept alive", change(RELEASE, 1, freed={"a": False, "b": True}), "alive after release", 1, "a", RELEASE),
    ),
    "no-write-in-flight": (
        Plant("two in one call", change(PREFETCH, 0, cost=calls(_OVERLAPPING)), "bytes [20, 24)", 0, None, PREFETCH),
        Plant("measured in bytes", change(PREFETCH, 1, cost=calls(_BYTES_AND_WORDS)), "bytes [23, 24)", 1),
        Plant("before the first arrived", _second_prefetch(100, late=True), "bytes [16, 24)", 0, None, WAIT),
    ),
    "secondary-equals-primary": (
        Plant("kept copy", change(CACHED, 0, results=result("a", bits=bits_of("a", WAIT))), "wrong)", 0, "a", CACHED),
        Plant("tied copy", _tied_copy(bits_of("c", WAIT)), "(5 of 5 wrong)", 1, "c", GATHER),
        Plant(
            "one rank's copy",
            _tied_copy(bits_of("c", GATHER)[:12] + bits_of("c", WAIT)[12:]),
            "at element 3 (2 of 5 wrong)",
            1,
            "c",
            GATHER,
        ),
        Plant("after a step", change(STEPPED, 0, results=result("a", bits=bits_of("a", WAIT))), "wrong)", 0, "a"),
    ),
}

_COPIES = both(
    *(change(i, None, results=result("a", storage=900 + i)) for i in (WAIT, GATHER, CACHED, RELOADED, STEPPED)),
    change(WAIT, None, results=result("b", storage=950)),
)
_COMMUNICATES = both(only("register", "gather"), change(CACHED, None, cost=Cost((all_gather("a"),))))
_IN_TURN = _second_prefetch(100, late=False)

UNJUDGED: Unjudged = {
    "buffer-matches-layout": (_COPIES, until(WAIT), expect(0, wanted="unspecified")),
    "valid-means-complete": (only("register", "update"), _COMMUNICATES),
    "freed-after-last-release": (until(UPDATE), change(RELEASE, None, freed={})),
    "no-write-in-flight": (only("gather"), both(_IN_TURN, _one_buffer), both(_no_clock, only("gather", "wait"))),
    "secondary-equals-primary": (until(WAIT), only("update")),
}
