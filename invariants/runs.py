"""Exact answers about runs, in integers and without listing elements, so that they hold for any numel.

A run is `count` blocks of `length` elements, `stride` apart. Counting block ends below a bound is a sum of rounded
quotients, which Euclid's algorithm gives in a logarithmic number of steps (`floor_sum`); everything else is bisection
over such counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from reference import Run, ceil_div, clamp


def floor_sum(count: int, divisor: int, factor: int, start: int) -> int:
    """The sum of (start + i * factor) // divisor over i in [0, count), for divisor >= 1 and nothing negative.

    Quotients of at least 1 are added in closed form; what remains is the same question about the mirrored triangle.
    """
    total = 0
    while True:
        total += (factor // divisor) * (count * (count - 1) // 2) + (start // divisor) * count
        factor, start = factor % divisor, start % divisor
        above, rest = divmod(factor * count + start, divisor)
        if not above:
            return total
        count, divisor, factor, start = above, factor, divisor, rest


def end_of(run: Run) -> int:
    """One past the last element, for a run that has any."""
    return run.start + (run.count - 1) * run.stride + run.length


def well_formed(run: Run, numel: int) -> bool:
    """Whether the run holds elements, all of them inside a parameter of `numel`, and none twice."""
    apart = run.count == 1 or run.stride >= run.length
    return run.length > 0 and run.count > 0 and apart and run.start >= 0 and end_of(run) <= numel


def below(run: Run, bound: int) -> int:
    """How many of the run's elements lie below `bound`."""
    blocks, within = divmod(max(bound - run.start, 0), _stride(run))
    return run.length * run.count if blocks >= run.count else blocks * run.length + min(within, run.length)


def first_shared(runs: Sequence[tuple[int, Run]]) -> tuple[int, int, int] | None:
    """Some element that two runs hold, as (owner, owner, element), None where there is none.

    Each run comes with its owner. Only runs whose extents overlap are compared.
    """
    open_runs: list[tuple[int, Run]] = []
    for owner, run in sorted(runs, key=lambda pair: pair[1].start):
        open_runs = [(other, before) for other, before in open_runs if end_of(before) > run.start]
        for other, before in open_runs:
            element = _shared(before, run)
            if element is not None:
                return other, owner, element
        open_runs.append((owner, run))
    return None


def first_missing(runs: Sequence[Run], numel: int) -> int | None:
    """The first element of [0, numel) that no run holds, None where there is none. No two runs may share one."""
    if sum(run.numel for run in runs) >= numel:
        return None
    # Without overlaps the number of missing elements up to x never falls with x.
    return bisect_left(range(numel), 1, key=lambda x: x + 1 - sum(below(run, x + 1) for run in runs))


def by_offset(runs: Sequence[Run]) -> Iterable[tuple[Run, Run]]:
    """Neighbouring runs of one shard, by rising local offset."""
    ordered = sorted(runs, key=lambda run: run.local)
    return pairwise(ordered)


def _shared(a: Run, b: Run) -> int | None:
    """The first element of `a` that `b` holds too."""
    number = bisect_left(range(a.count), 1, key=lambda i: _meetings(a, b, i + 1))
    if number == a.count:
        return None
    start = a.start + number * a.stride
    met = clamp(ceil_div(start - b.length + 1 - b.start, _stride(b)), 0, b.count - 1)
    return max(start, b.start + met * b.stride)


def _meetings(a: Run, b: Run, blocks: int) -> int:
    """How many pairs of a block among the first `blocks` of `a` and a block of `b` have elements in common.

    For a block of `a`, those are the blocks of `b` that start before its end, less those that end before its start.
    """
    return _starts_below(a.start + a.length, a, b, blocks) - _starts_below(a.start - b.length + 1, a, b, blocks)


def _starts_below(bound: int, a: Run, b: Run, blocks: int) -> int:
    """The number of blocks of `b` that start below `bound + i * a.stride`, summed over i in [0, blocks)."""
    step, stride = _stride(a), _stride(b)
    start = bound - b.start + stride - 1  # for each i, clamp((start + i * step) // stride, 0, b.count)
    first = clamp(ceil_div(-start, step), 0, blocks)
    full = clamp(ceil_div(b.count * stride - start, step), first, blocks)
    return floor_sum(full - first, stride, step, start + first * step) + (blocks - full) * b.count


def _stride(run: Run) -> int:
    """The distance between blocks; with one block there is none, and any that is no less than the block will do."""
    return run.stride if run.count > 1 else max(run.stride, run.length, 1)
