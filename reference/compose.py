"""One index map after another: runs of a shard that was itself cut from a shard.

All functions expect what layouts make: runs by rising offset, whose positions rise with their offsets as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reference.arithmetic import clamp, min_
from reference.runs import Run, block, joined, strided


def clipped(run: Run, low: int, high: int) -> tuple[Run, ...]:
    """What of the run lies at shard offsets in [low, high): at most a block's end, whole blocks, a block's start."""
    low, high = (clamp(bound - run.local, 0, run.numel) for bound in (low, high))
    (first, head), (last, tail) = divmod(low, run.length), divmod(high, run.length)
    if first == last or high <= low:
        return block(run.local + low, run.start + first * run.stride + head, high - low)
    whole = first + (head > 0)
    return (
        *(block(run.local + low, run.start + first * run.stride + head, run.length - head) if head else ()),
        *strided(run.local + whole * run.length, run.start + whole * run.stride, run.length, run.stride, last - whole),
        *block(run.local + last * run.length, run.start + last * run.stride, tail),
    )


def within(run: Run, low: int, high: int) -> tuple[Run, ...]:
    """What of the run lies at positions in [low, high) of the parameter: at most three runs."""
    return clipped(run, run.local + _below(run, low), run.local + _below(run, high))


def composed(outer: Sequence[Run], inner: Iterable[Run]) -> tuple[Run, ...]:
    """The map of a shard cut by `inner` from the shard that `outer` cut from the parameter.

    What `inner` takes from the outer shard's padding is padding again. A matrix cut twice needs at most three runs,
    whichever dims are cut; at worst there are three for each block of the coarser map.
    """
    found = (
        through
        for run in inner
        for one in outer
        for part in within(run, one.local, one.local + one.numel)
        for through in _through(one, part)
    )
    return joined(found)


def _below(run: Run, bound: int) -> int:
    """How many of the run's elements lie below position `bound`."""
    blocks, rest = divmod(max(bound - run.start, 0), run.stride)
    return min_(blocks * run.length + min_(rest, run.length), run.numel)


def _through(outer: Run, run: Run) -> Iterator[Run]:
    """`run`, whose positions are all offsets that `outer` holds, as a run of the parameter's positions."""
    number, rest = divmod(run.start - outer.local, outer.length)
    if run.count == 1:
        for piece in clipped(outer, run.start, run.start + run.length):
            yield replace(piece, local=run.local + piece.local - run.start)
    elif outer.count == 1:
        yield replace(run, start=outer.start + rest)
    elif run.stride % outer.length == 0 and rest + run.length <= outer.length:
        stride = run.stride // outer.length * outer.stride
        yield from strided(run.local, outer.start + number * outer.stride + rest, run.length, stride, run.count)
    elif run.stride < outer.length:
        last = (run.start + (run.count - 1) * run.stride + run.length - 1 - outer.local) // outer.length
        for one in _blocks(outer, number, last + 1):
            for part in within(run, one.local, one.local + one.length):
                yield from _through(one, part)
    else:
        for one in _blocks(run, 0, run.count):
            yield from _through(outer, one)


def _blocks(run: Run, first: int, end: int) -> Iterator[Run]:
    """The run's blocks from number `first` to before `end`, each as a run of its own."""
    for number in range(first, end):
        yield from block(run.local + number * run.length, run.start + number * run.stride, run.length)
