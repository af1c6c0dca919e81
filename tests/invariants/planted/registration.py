"""Registrations that go wrong, and operations that fail."""

from __future__ import annotations

from dataclasses import replace

from invariants import Evidence, RankStory
from reference import FlatPadded
from tests.invariants.good import (
    ACCUMULATE,
    GATHER,
    LAYOUT,
    REGISTER,
    UPDATE,
    Break,
    both,
    change,
    expect,
    lost,
    only,
    subject,
    until,
)
from tests.invariants.plants import Plant, Plants, Unjudged

_MUST_REFUSE = expect(REGISTER, wanted="refuse", reason="rank 1 has shape (8,) for a")
_OPEN = expect(REGISTER, wanted="unspecified", reason="the backend does not carry it")


def _refused(rank: int | None, error: str = "RegistrationError: shapes differ") -> Break:
    return both(change(REGISTER, rank, outcome="refused", error=error), _ends(rank))


def _ends(rank: int | None) -> Break:
    def shorter(evidence: Evidence) -> Evidence:
        short = until(REGISTER)(evidence).ranks
        ranks = [short[i] if rank in (None, i) else story for i, story in enumerate(evidence.ranks)]
        return replace(evidence, ranks=tuple(ranks))

    return shorter


def _even(evidence: Evidence) -> Evidence:
    even = {id: replace(one, layouts={2: FlatPadded((4,), 2)}) for id, one in evidence.subjects.items()}
    return replace(evidence, subjects=even)


def _first_rank(evidence: Evidence) -> Evidence:
    return replace(evidence, ranks=evidence.ranks[:1])


def _unknown_end(evidence: Evidence) -> Evidence:
    return replace(evidence, ranks=(evidence.ranks[0], RankStory(5, "signalled", (), "was killed by signal 11\n...")))


ALL_REFUSE = both(_MUST_REFUSE, _refused(None))
_ONE_REFUSES = both(_refused(1), lost(GATHER, 0))

PLANTED: Plants = {
    "uniform-manifest": (
        Plant("accepted on all", _MUST_REFUSE, "register done", rank=0, step=REGISTER),
        Plant("accepted on one", both(_MUST_REFUSE, _refused(0)), "register done", rank=1),
        Plant("accepted, then lost", both(_MUST_REFUSE, _refused(0), lost(GATHER, 1)), "register done", rank=1),
        Plant("hangs", both(_MUST_REFUSE, lost(REGISTER, 1)), "register lost: the rank did not come back", rank=1),
    ),
    "padded-uneven-accepted": (
        Plant(
            "refused", _refused(None, "ValueError: 3 against 2"), "register refused: ValueError: 3 against 2", rank=0
        ),
        Plant("refused on one", _refused(1), "register refused", rank=1, step=REGISTER),
        Plant("lost", lost(REGISTER, 0), "register lost", rank=0),
    ),
    "size-from-shape": (
        Plant("refused", _refused(None, "ValueError: gradient of 3"), "register refused: ValueError: gradient of 3"),
        Plant("beside a full one", both(subject("a", grad_buffer="full"), _refused(0)), "register refused", rank=0),
        Plant("frozen refused", both(subject("b", frozen=True), _refused(0, "KeyError: 'b'")), "KeyError", rank=0),
    ),
    "refused-everywhere": (
        Plant("accepted elsewhere", _refused(1), "register done", rank=0, step=REGISTER),
        Plant(
            "raises in another way",
            both(change(REGISTER, 1, outcome="raised", error="KeyError: 'a'"), _ends(1)),
            "register done",
            rank=0,
        ),
        Plant("peer went on and was lost", _ONE_REFUSES, "register done", rank=0),
        Plant("peer lost", both(_refused(1), lost(REGISTER, 0)), "register lost", rank=0),
        Plant(
            "another kind of error",
            both(_MUST_REFUSE, _refused(0), _refused(1, "KeyError: 'a'")),
            "register refused: KeyError: 'a'",
            rank=1,
        ),
        Plant("also where nothing is specified", both(_OPEN, _refused(1)), "register done", rank=0),
    ),
    "accepted-everywhere": (
        Plant("refused", _refused(None), "register refused: RegistrationError", rank=0, step=REGISTER),
        Plant("refused on one", _refused(1), "register refused", rank=1),
        Plant(
            "refused for no reason", both(expect(REGISTER, reason="all say the same"), _refused(1)), "register refused"
        ),
        Plant("lost", lost(REGISTER, 1), "register lost: the rank did not come back in time", rank=1),
        Plant(
            "update raises", change(UPDATE, 1, outcome="raised", error="TypeError: x"), "update raised: TypeError: x"
        ),
        Plant("accumulate lost", lost(ACCUMULATE, 0), "accumulate lost", rank=0, step=ACCUMULATE),
    ),
    "bounded-time": (
        Plant("hangs", lost(GATHER, 1), "gather lost: the rank did not come back in time", rank=1, step=GATHER),
        Plant("hangs past the deadline", both(lost(GATHER, 1), change(GATHER, 1, seconds=11.0)), "gather lost", rank=1),
        Plant("exits", lost(LAYOUT, 0, "exited", "exited with code 3"), "layout lost: the rank exited with code 3"),
        Plant("dies before its first step", _unknown_end, "the rank was killed by signal 11", rank=5),
        Plant("too slow", change(UPDATE, 1, seconds=11.0), "update took 11.0 s", rank=1, step=UPDATE),
        Plant("refuses too late", both(ALL_REFUSE, change(REGISTER, 0, seconds=30.0)), "30.0 s"),
        Plant("hangs where nothing is specified", both(_OPEN, lost(REGISTER, 0)), "register lost", rank=0),
    ),
}

_NO_REGISTER = only("gather")
UNJUDGED: Unjudged = {
    "uniform-manifest": (until(GATHER), _OPEN, _NO_REGISTER),
    "padded-uneven-accepted": (_even, _OPEN, _MUST_REFUSE, _NO_REGISTER),
    "size-from-shape": (both(*(subject(id, grad_buffer="full") for id in "abc")), _OPEN, _NO_REGISTER),
    "refused-everywhere": (
        until(GATHER),
        _NO_REGISTER,
        both(_refused(None), change(REGISTER, None, world_size=1)),
        both(_refused(None), change(REGISTER, None, world_size=1), _first_rank),
    ),
    "accepted-everywhere": (both(_OPEN, only("register", "update")), ALL_REFUSE, _NO_REGISTER),
    "bounded-time": (lambda evidence: replace(evidence, ranks=()),),
}
