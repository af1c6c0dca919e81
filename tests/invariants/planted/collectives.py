"""Collectives that differ between ranks, and buffers with holes."""

from __future__ import annotations

from dataclasses import replace

from invariants import Buffer, Call, Cost
from tests.invariants.good import (
    GATHER,
    NORM,
    PREFETCH,
    REDUCE,
    Break,
    all_gather,
    both,
    calls,
    change,
    lost,
    only,
)
from tests.invariants.plants import Plant, Plants, Unjudged

_ALL_REDUCE = Call("all_reduce", (Buffer(1, "float64", True, 50),), (Buffer(1, "float64", True, 50),))


def _gather(numel: int, dtype: str = "float32", received: int = 6) -> Call:
    return Call("all_gather", (Buffer(numel, dtype, True, 10),), (Buffer(received, dtype, True, 100),))


def _listed(own: int, *others: int) -> Call:
    """An all-gather that receives into a list of buffers."""
    recv = tuple(Buffer(numel, "float32", True, 500 + place) for place, numel in enumerate(others))
    return Call("all_gather", (Buffer(own, "float32", True, 10),), recv)


def _scatter(send: int, recv: int) -> Call:
    return Call("reduce_scatter", (Buffer(send, "float32", True, 31),), (Buffer(recv, "float32", True, 32),))


def _strided(call: Call) -> Call:
    return replace(call, send=tuple(replace(buffer, contiguous=False) for buffer in call.send))


def _alone(step: int) -> Break:
    return both(only("gather"), *(change(i, None, cost=Cost()) for i in range(22) if i != step))


_MESSAGES = both(change(GATHER, 0, cost=calls(Call("other", (), ()))), _alone(GATHER), change(GATHER, 1, cost=Cost()))
_LEADERS = change(GATHER, 0, cost=calls(replace(_ALL_REDUCE, group=(0,))))

PLANTED: Plants = {
    "same-sequence-on-every-rank": (
        Plant(
            "one more",
            change(GATHER, 1, cost=calls(all_gather("a"), _ALL_REDUCE)),
            "all_gather, all_reduce in gather",
            1,
            None,
            GATHER,
        ),
        Plant("none", change(REDUCE, 1, cost=calls()), "no collective in reduce", 1, None, REDUCE),
        Plant(
            "another order",
            both(
                change(GATHER, 0, cost=calls(all_gather("a"), _ALL_REDUCE)),
                change(GATHER, 1, cost=calls(_ALL_REDUCE, all_gather("a"))),
            ),
            "all_reduce, all_gather in gather",
            1,
        ),
        Plant("another kind", change(GATHER, 0, cost=calls(_ALL_REDUCE)), "all_gather in gather", 1),
        Plant("six", change(GATHER, 1, cost=calls(*[all_gather("a")] * 6)), "all_gather, all_gather in gather", 1),
        Plant("seven", change(GATHER, 1, cost=calls(*[all_gather("a")] * 7)), "(7 in all) in gather", 1),
        Plant("many", change(GATHER, 1, cost=calls(*[all_gather("a")] * 8)), "(8 in all) in gather", 1),
    ),
    "equal-counts-and-dtypes": (
        Plant(
            "another count",
            change(GATHER, 1, cost=calls(_gather(4, received=8))),
            "a part of 4 float32",
            1,
            None,
            GATHER,
        ),
        Plant("another dtype", change(GATHER, 1, cost=calls(_gather(3, "int32"))), "a part of 3 int32", 1),
        Plant(
            "buffer of the logical numel",
            change(GATHER, None, cost=calls(_gather(3, received=5))),
            "a part of 3 float32 in all_gather number 0",
            0,
        ),
        Plant("one buffer fewer", change(PREFETCH, 1, cost=calls(all_gather("a"))), "a part of 1 float32", 0),
        Plant(
            "list without room",
            both(change(GATHER, 0, cost=calls(_listed(3, 3, 2))), change(GATHER, 1, cost=calls(_listed(3, 3, 2)))),
            "a part of 3 float32",
            1,
        ),
        Plant(
            "scattered unevenly", change(REDUCE, 1, cost=calls(_scatter(5, 2))), "a part of 2 float32", 1, None, REDUCE
        ),
        Plant(
            "summed with another length",
            both(
                change(NORM, 0, cost=calls(_ALL_REDUCE)),
                change(NORM, 1, cost=calls(replace(_ALL_REDUCE, send=(Buffer(2, "float64", True, 50),)))),
            ),
            "a part of 2 float64",
            1,
            None,
            NORM,
        ),
    ),
    "send-contiguous": (
        Plant(
            "a column",
            change(GATHER, 0, cost=calls(_strided(all_gather("a")))),
            "a strided send buffer of 3 float32 in all_gather",
            0,
            None,
            GATHER,
        ),
        Plant("in a prefetch", change(PREFETCH, 1, cost=calls(_strided(all_gather("b")))), "of 1 float32", 1),
    ),
}

_ONE_RANK_LOST = both(only("gather"), lost(GATHER, 1))
UNJUDGED: Unjudged = {
    "same-sequence-on-every-rank": (
        only("update"),
        _ONE_RANK_LOST,
        _MESSAGES,
        both(_alone(GATHER), _LEADERS, change(GATHER, 1, cost=Cost())),
    ),
    "equal-counts-and-dtypes": (only("update"), _ONE_RANK_LOST, _MESSAGES),
    "send-contiguous": (only("update"),),
}
