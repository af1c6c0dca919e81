"""Runs: many element positions said in five integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reference.arithmetic import Term, clamp


@dataclass(frozen=True, slots=True)
class Run:
    """`count` blocks of `length` consecutive elements, back to back in a shard, `stride` apart in the parameter.

    Block i lies at `local + i * length` in the shard and at `start + i * stride` in the parameter's row-major order.
    Plain data: nothing is checked here, because an implementation's own claim is written in runs too.
    """

    local: int
    start: int
    length: int
    stride: int
    count: int

    @property
    def numel(self) -> int:
        """Elements in all blocks together."""
        return self.length * self.count


def strided(local: int, start: int, length: int, stride: int, count: int) -> tuple[Run, ...]:
    """The run of these blocks in its one normal form, where equal maps are equal runs.

    No elements: no run. Blocks that touch: one block. One block: its stride is its length.
    """
    if length <= 0 or count <= 0:
        return ()
    if count == 1 or stride == length:
        return (Run(local, start, length * count, length * count, 1),)
    return (Run(local, start, length, stride, count),)


def normal(run: Run) -> tuple[Run, ...]:
    """The run in its normal form; none where it has no elements."""
    return strided(run.local, run.start, run.length, run.stride, run.count)


def block(local: int, start: int, length: int) -> tuple[Run, ...]:
    """One block of consecutive elements; no run where `length` is not positive."""
    return strided(local, start, length, length, 1)


def joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The same map with single blocks that touch, both in the shard and in the parameter, made one."""
    done: list[Run] = []
    for run in runs:
        last = done[-1] if done else None
        if last and last.count == run.count == 1 and touches(last, run):
            done[-1:] = block(last.local, last.start, last.length + run.length)
        else:
            done.append(run)
    return tuple(done)


def touches(a: Run, b: Run) -> bool:
    """Whether the single block `b` goes on where the single block `a` ends, in the shard and in the parameter."""
    return (b.local, b.start) == (a.local + a.length, a.start + a.length)


def offset_at(run: Run, number: Term, within: Term) -> Term:
    """Where in the shard element `within` of block `number` lies."""
    return run.local + number * run.length + within


def position_at(run: Run, number: Term, within: Term) -> Term:
    """Where in the parameter element `within` of block `number` lies."""
    return run.start + number * run.stride + within


def position_of(run: Run, offset: int) -> int | None:
    """Where in the parameter the shard's element `offset` lies, None where this run does not hold it."""
    inside = offset - run.local
    if not 0 <= inside < run.numel:
        return None
    number, within = divmod(inside, run.length)
    position: int = position_at(run, number, within)
    return position


def offset_of(run: Run, position: int) -> int | None:
    """Where in the shard the parameter's element `position` lies, None where this run does not hold it.

    For runs whose blocks do not overlap (stride >= length, or one block).
    """
    number = clamp((position - run.start) // max(run.stride, 1), 0, run.count - 1)
    within = position - run.start - number * run.stride
    return offset_at(run, number, within) if 0 <= within < run.length else None
