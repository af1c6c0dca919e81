"""Promises not kept, and gathers that promise nothing. GATHER and CACHED are in a steady state, the later ones not."""

from __future__ import annotations

from dataclasses import replace

from invariants import Buffer, Call, Cost, Evidence, Held
from tests.invariants.good import (
    CACHED,
    GATHER,
    LAST_USE,
    PREFETCH,
    REGISTER,
    RELOADED,
    UPDATE,
    WAIT,
    Break,
    all_gather,
    both,
    change,
    expect,
    only,
    result,
    until,
)
from tests.invariants.plants import Plant, Plants, Unjudged

_OPEN = expect(REGISTER, wanted="unspecified")
_COLD = both(*(change(index, None, warm=False) for index in range(22)))


def _cost(index: int, **fields: int) -> Break:
    return change(index, 1, cost=lambda step: replace(step.cost, **fields))


def _calls(index: int, *calls: Call) -> Break:
    return change(index, 0, cost=lambda step: replace(step.cost, calls=calls))


def _fresh(storage: int) -> Call:
    call = all_gather("a")
    return replace(call, recv=tuple(replace(buffer, storage=storage) for buffer in call.recv))


def _allocates_after(*kinds: tuple[str, tuple[str, ...]]) -> Break:
    """A gather of a in fresh memory after a first one and these steps."""

    def broken(evidence: Evidence) -> Evidence:
        ranks = []
        for story in evidence.ranks:
            first, later = story.steps[GATHER], story.steps[GATHER]
            between = [
                replace(story.steps[UPDATE], kind=kind, parameters=ids, held=_HELD if kind == "held" else ())
                for kind, ids in kinds
            ]
            between = [replace(step, kind="update") if step.kind == "held" else step for step in between]
            fresh = replace(later, cost=Cost((_fresh(700),), allocations=1, allocated_bytes=24))
            steps = [replace(first, warm=False), *between, fresh]
            ranks.append(replace(story, steps=tuple(replace(s, index=i) for i, s in enumerate(steps))))
        return replace(evidence, ranks=tuple(ranks), second=None)

    return broken


def _no_collective(evidence: Evidence) -> Evidence:
    """As on one rank, where nothing need be sent."""
    return both(*(change(index, None, cost=Cost()) for index in range(22)))(evidence)


_HELD = (Held("a", 0, released=False),)
_SIZES = Call("all_gather", (Buffer(1, "int64", True, 60),), (Buffer(2, "int64", True, 61),))


# Steps between two gathers of a that may leave the second without a buffer that is free.
_NOT_STEADY = tuple(
    _allocates_after(*kinds)
    for kinds in (
        [("held", ("a",))],
        [("release", ("a",)), ("gather", ("b",))],
        [("release", ("a",)), ("accumulate", ("a",))],
        [("save", ("a", "b"))],
        [("load", ("a", "b"))],
        [("forward", ("a", "b")), ("backward", ("a", "b"))],
    )
)

PLANTED: Plants = {
    "result-is-view": (
        Plant(
            "copied",
            change(GATHER, 1, results=result("a", storage=901, storage_nbytes=20)),
            "a result in memory of its own (20 bytes)",
            1,
            "a",
            GATHER,
        ),
        Plant(
            "copied after a prefetch", change(WAIT, 0, results=result("b", storage=902)), "memory of its own", 0, "b"
        ),
        Plant("copied from what is kept", change(CACHED, 0, results=result("a", storage=903)), "of its own", 0, "a"),
    ),
    "view-outlives-release": (
        Plant(
            "handed on",
            change(LAST_USE, 0, held=(Held("a", GATHER, released=True, first_wrong=4),)),
            f"element 4 of the released result of step {GATHER} changed",
            0,
            "a",
            LAST_USE,
            4,
        ),
    ),
    "buffer-reused": (
        Plant("fresh memory", _calls(GATHER, _fresh(700)), "new buffers in a repeated gather: 1", 0, None, GATHER),
        Plant("after other gathers", _allocates_after(("gather", ("b",)), ("release", ("b",))), "gather: 1", 0),
        Plant("after a release", _allocates_after(("release", ("a",)), ("update", ("a",))), "gather: 1", 0),
    ),
    "one-collective": (
        Plant(
            "sizes first",
            _calls(GATHER, _SIZES, all_gather("a")),
            "collectives for parameters a: 2 (all_gather, all_gather)",
            0,
            None,
            GATHER,
        ),
        Plant(
            "prefetch one by one",
            both(change(PREFETCH, None, warm=True), _calls(PREFETCH, all_gather("a"), all_gather("b"))),
            "collectives for parameters a, b: 2 (all_gather, all_gather)",
            0,
            None,
            PREFETCH,
        ),
    ),
    "no-extra-copy": (
        Plant(
            "copied out", _cost(GATHER, copies=1, copied_bytes=20), "copies in gather: 1, of 20 bytes", 1, None, GATHER
        ),
        Plant(
            "copied on a wait",
            both(change(WAIT, None, warm=True), _cost(WAIT, copies=2, copied_bytes=24)),
            "copies in wait: 2, of 24 bytes",
            1,
            None,
            WAIT,
        ),
        Plant(
            "copied from what is kept",
            _cost(CACHED, copies=1, copied_bytes=20),
            "gather: 1, of 20 bytes",
            1,
            None,
            CACHED,
        ),
    ),
    "no-steady-state-allocation": (
        Plant(
            "fresh memory",
            _cost(GATHER, allocations=1, allocated_bytes=24),
            "allocations in a repeated gather: 1, of 24 bytes",
            1,
            None,
            GATHER,
        ),
        Plant(
            "kept and yet", _cost(CACHED, allocations=3, allocated_bytes=60), "gather: 3, of 60 bytes", 1, None, CACHED
        ),
        Plant(
            "after a release", _allocates_after(("release", ("a",)), ("update", ("a",))), "gather: 1, of 24 bytes", 0
        ),
    ),
    "no-host-sync": (
        Plant("item", _cost(GATHER, syncs=1), "values read back by the host in gather: 1", 1, None, GATHER),
    ),
}

UNJUDGED: Unjudged = {
    "result-is-view": (_OPEN, only("register"), _no_collective),
    "view-outlives-release": (until(CACHED),),
    "buffer-reused": (_OPEN, _COLD, both(until(RELOADED), change(GATHER, None, warm=False)), *_NOT_STEADY),
    "one-collective": (_OPEN, _COLD),
    "no-extra-copy": (_OPEN, _COLD),
    "no-steady-state-allocation": (_OPEN, _COLD, *_NOT_STEADY),
    "no-host-sync": (_OPEN, _COLD),
}
