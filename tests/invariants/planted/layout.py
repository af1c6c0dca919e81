"""Wrong claims about the layout. Parameter a: 5 elements, shards of 3, one element of padding on rank 1.

In buckets, a lies in one of 6 elements and b in one of 2 behind it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from invariants import Claim, Evidence, Place, Step
from reference import Bucketed, InBucket, Layout, Run
from tests.invariants.good import GATHER, LAYOUT, Break, both, change, claim, claim_of, lost, only, subject
from tests.invariants.plants import Plant, Plants, Unjudged


class _Free:
    """A layout that owes no law."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layout, name)

    owes: frozenset[str] = frozenset()


def _claim(rank: int, **fields: Any) -> Break:
    return change(LAYOUT, rank, claims=claim("a", **fields))


def _runs(rank: int, *runs: Run) -> Break:
    return change(LAYOUT, rank, claims=claim("a", runs=runs))


def _raises(rank: int) -> Break:
    return change(LAYOUT, rank, outcome="raised", error="ValueError: narrow", claims={})


def _nothing_owed(evidence: Evidence) -> Evidence:
    subjects = evidence.subjects
    free = {id: replace(one, layouts={2: _Free(one.layouts[2])}) for id, one in subjects.items()}
    return replace(evidence, subjects=free)


_BUFFER = Bucketed(((5,), (1,)), 2, 5)
_PLACES = {"a": Place(0, 0, 6), "b": Place(6, 6, 8)}


def _claims_in_buckets(step: Step) -> dict[str, Claim]:
    layouts = {id: InBucket(_BUFFER, index) for index, id in enumerate("ab")}
    return {id: replace(claim_of(layouts[id], step.rank), place=_PLACES[id]) for id in "ab"}


IN_BUCKETS: Break = both(
    *(subject(id, layouts={2: InBucket(_BUFFER, index)}) for index, id in enumerate("ab")),
    change(LAYOUT, None, claims=_claims_in_buckets),
)


def _bucket(id: str, *place: int, rank: int | None = None) -> Break:
    return both(IN_BUCKETS, change(LAYOUT, rank, claims=claim(id, place=Place(*place))))


def _half_known(evidence: Evidence) -> Evidence:
    return both(IN_BUCKETS, change(LAYOUT, None, claims=claim("b", place=None)))(evidence)


def _none_known(evidence: Evidence) -> Evidence:
    return both(_half_known, change(LAYOUT, None, claims=claim("a", place=None)))(evidence)


PLANTED: Plants = {
    "padding-minimal": (
        Plant("shard too long", _claim(1, shard_numel=4), "a shard of 4 elements", rank=1, parameter="a", step=LAYOUT),
        Plant("shard too short", _claim(0, shard_numel=2), "a shard of 2 elements", rank=0),
        Plant("padded twice", _claim(0, padded_numel=8), "padded numel 8", rank=0),
        Plant("not padded", _claim(1, padded_numel=5), "padded numel 5", rank=1),
    ),
    "owned-exactly-once": (
        Plant("tail on no rank", _runs(1, Run(0, 3, 1, 1, 1)), "element 4 on no rank (4 of 5", None, "a", LAYOUT, 4),
        Plant("head on no rank", _runs(0, Run(0, 1, 2, 2, 1)), "element 0 on no rank", offset=0),
        Plant("shared between ranks", _runs(1, Run(0, 2, 3, 3, 1)), "element 2 on ranks 0 and 1", offset=2),
        Plant(
            "twice on one rank",
            _runs(1, Run(0, 3, 1, 1, 1), Run(1, 3, 2, 2, 1)),
            "element 3 twice on rank 1",
            rank=1,
            offset=3,
        ),
        Plant("beyond the parameter", _runs(1, Run(0, 3, 3, 3, 1)), "1 blocks of 3, 3 apart, from element 3", rank=1),
        Plant("before the parameter", _runs(0, Run(0, -1, 3, 3, 1)), "from element -1", rank=0),
        Plant("beyond the shard", _runs(1, Run(2, 3, 2, 2, 1)), "at offset 2", rank=1),
        Plant("negative length", _runs(1, Run(0, 6, -1, -1, 1)), "1 blocks of -1", rank=1),
        Plant("blocks overlap", _runs(0, Run(0, 0, 2, 1, 2)), "2 blocks of 2, 1 apart", rank=0),
        Plant(
            "one offset twice",
            _runs(1, Run(0, 3, 1, 1, 1), Run(0, 4, 1, 1, 1)),
            "two elements at shard offset 0",
            rank=1,
        ),
        Plant("layout raises", _raises(1), "layout raised: ValueError: narrow", rank=1, parameter="a"),
    ),
    "order-kept": (
        Plant(
            "ranks swapped",
            both(_runs(0, Run(0, 3, 2, 2, 1)), _runs(1, Run(0, 0, 3, 3, 1))),
            "element 0 at shard offset 0 behind element 4",
            rank=1,
        ),
        Plant(
            "offsets swapped",
            _runs(0, Run(0, 2, 1, 1, 1), Run(1, 0, 2, 2, 1)),
            "element 0 at shard offset 1 behind element 2",
            rank=0,
            offset=0,
        ),
        Plant("blocks go backwards", _runs(0, Run(0, 1, 1, -1, 2)), "blocks of 1 elements, -1 apart", rank=0),
    ),
    "boundaries-divisible": (
        Plant("padded length no multiple", _claim(0, padded_numel=5), "padded numel 5 and shards of 3", rank=0),
        Plant("shards of two lengths", _claim(1, shard_numel=2), "padded numel 6 and shards of 2", rank=1),
        Plant("boundary elsewhere", _runs(1, Run(0, 2, 2, 2, 1)), "element 2 at shard offset 0", rank=1, offset=2),
        Plant("shifted in the shard", _runs(1, Run(1, 3, 2, 2, 1)), "element 3 at shard offset 1", rank=1),
    ),
    "empty-shard-legal": (
        Plant(
            "claims an element past the end",
            change(LAYOUT, 1, claims=claim("b", runs=(Run(0, 0, 1, 1, 1),))),
            "1 elements owned",
            rank=1,
            parameter="b",
        ),
        Plant("empty where it is not", _runs(1), "0 elements owned", rank=1, parameter="a"),
        Plant("negative", change(LAYOUT, 1, claims=claim("b", runs=(Run(0, 1, -1, -1, 1),))), "-1 owned", rank=1),
        Plant("negative shard", change(LAYOUT, 1, claims=claim("b", shard_numel=-1)), "a shard of -1", rank=1),
        Plant(
            "behind a rank that raises",
            both(change(LAYOUT, 1, claims=claim("b", runs=(Run(0, 0, 1, 1, 1),))), _raises(0)),
            "1 elements owned",
            rank=1,
        ),
        Plant("emptiness is an error", _raises(1), "layout raised: ValueError: narrow", rank=1, parameter="b"),
    ),
    "buckets-divisible": (
        Plant("start no multiple", _bucket("b", 7, 7, 9), "a bucket from 7 to 9", parameter="b", step=LAYOUT),
        Plant("end no multiple", _bucket("a", 0, 0, 5), "a bucket from 0 to 5", parameter="a"),
        Plant("on one rank", _bucket("b", 6, 6, 7, rank=1), "a bucket from 6 to 7", rank=1),
        Plant(
            "on the one rank that says",
            both(_bucket("b", 6, 6, 7), change(LAYOUT, 0, claims=claim("b", place=None))),
            "a bucket from 6 to 7",
            rank=1,
        ),
        Plant("only the buffer is padded", _bucket("a", 0, 0, 8, rank=0), "padded numel 6 for a bucket from 0 to 8", 0),
    ),
    "buckets-tile": (
        Plant("overlap", _bucket("b", 5, 5, 7), "a bucket from 5 overlaps", parameter="b", step=LAYOUT),
        Plant("hole", _bucket("b", 64, 64, 66, rank=1), "a bucket from 64 leaves a hole", rank=1, parameter="b"),
        Plant("hole at the start", _bucket("a", 2, 2, 6), "a bucket from 2 leaves a hole", parameter="a"),
        Plant("negative length", _bucket("b", 6, 6, 4), "a bucket from 6 to 4", parameter="b"),
        Plant("parameters overlap", _bucket("b", 4, 0, 6), "it starts at 4, the one before it ends at 5", None, "b"),
        Plant("before its bucket", _bucket("b", 5, 6, 8), "it lies from 5 to 6", parameter="b"),
        Plant("behind its bucket", _bucket("b", 8, 6, 8), "it lies from 8 to 9", parameter="b"),
        Plant("over the end", _bucket("a", 2, 0, 6), "it lies from 2 to 7", parameter="a"),
    ),
    "logical-size-carried": (
        Plant("padded shape", _claim(0, logical_shape=(6,)), "logical shape (6,)", rank=0, parameter="a"),
        Plant("local shape", _claim(1, logical_shape=(2,)), "logical shape (2,)", rank=1),
        Plant("flattened scalar", subject("b", shape=()), "logical shape (1,)", parameter="b"),
    ),
}

_UNJUDGED = (only("register", "gather"), lost(GATHER, 1), _nothing_owed)
UNJUDGED: Unjudged = dict.fromkeys(PLANTED, _UNJUDGED) | {
    "buckets-divisible": (*_UNJUDGED, _none_known, lambda good: good),
    "buckets-tile": (*_UNJUDGED, _none_known, _half_known, lambda good: good),
}
