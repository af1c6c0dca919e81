"""What is claimed of the formulas. One small function a claim: its name is the slug, its docstring the sentence.

A claim's parameters after `f` are its variables, every one of them any integer of its domain. The same lines are
evaluated on SMT terms to prove, on ints to replay a counterexample, and on NumPy arrays to try every small size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from shardproof.proofs.formulas import Formulas
from shardproof.proofs.logic import Statement, all_of, any_of, negated, within

# An int, a NumPy integer array or an SMT integer term.
Term = Any


@dataclass(frozen=True, slots=True)
class Domain:
    """Integers from `least` (None: all) to below the variable named `below` (None: without end).

    Where there is no end, trying every size stops after `few`, or after `many` in claims with few points.
    """

    least: int | None = 0
    below: str | None = None
    few: int = 4
    many: int | None = None


DOMAINS: Mapping[str, Domain] = MappingProxyType(
    {
        "a": Domain(None, few=300),
        "b": Domain(None, few=40),
        "divisor": Domain(1, few=64),
        "span": Domain(few=40),
        "numel": Domain(few=24, many=300),
        "more": Domain(many=16),
        "size": Domain(few=8, many=300),
        "inner": Domain(1, few=2, many=3),
        "outer": Domain(1, few=2, many=2),
        "world_size": Domain(1, few=6, many=64),
        "new_world_size": Domain(1, few=6),
        "alignment": Domain(1, many=16),
        "new_alignment": Domain(1),
        "fewer": Domain(1, many=16),
        "units": Domain(few=2, many=300),
        "first_unit": Domain(few=2),
        "multiple": Domain(1, few=3, many=16),
        "used": Domain(many=300),
        "start": Domain(few=24),
        "rank": Domain(below="world_size"),
        "later_rank": Domain(below="world_size"),
        "other_rank": Domain(below="world_size"),
        "index": Domain(below="numel"),
        "offset": Domain(below="numel"),
        "later_offset": Domain(below="numel"),
        "spot": Domain(few=8),
        "other_spot": Domain(few=8),
        "row": Domain(below="outer"),
        "other_row": Domain(below="outer"),
        "slice_": Domain(below="size"),
        "column": Domain(below="inner"),
    }
)


@dataclass(frozen=True)
class Claim:
    """One claim: `says(formulas, **variables)` for every integer that the domains of its variables allow."""

    says: Callable[..., Statement]

    @cached_property
    def slug(self) -> str:
        """Its name, which never changes."""
        return self.says.__name__.replace("_", "-")

    @cached_property
    def sentence(self) -> str:
        """What it says, in words."""
        return " ".join((inspect.getdoc(self.says) or "").split())

    @cached_property
    def domains(self) -> Mapping[str, Domain]:
        """Its variables, each after the one that bounds it."""
        return {name: DOMAINS[name] for name in list(inspect.signature(self.says).parameters)[1:]}


def floor_div_is_the_floor(f: Formulas, a: Term, divisor: Term) -> Statement:
    """floor_div(a, b) is the greatest integer whose product with b does not exceed a."""
    quotient = f.floor_div(a, divisor)
    return Statement(all_of(quotient * divisor <= a, a < (quotient + 1) * divisor))


def ceil_div_is_the_ceiling(f: Formulas, a: Term, divisor: Term) -> Statement:
    """ceil_div(a, b) is the least integer whose product with b reaches a."""
    quotient = f.ceil_div(a, divisor)
    return Statement(all_of((quotient - 1) * divisor < a, a <= quotient * divisor))


def align_up_is_the_next_multiple(f: Formulas, a: Term, divisor: Term) -> Statement:
    """align_up(a, b) is the least multiple of b that is no less than a."""
    aligned = f.align_up(a, divisor)
    return Statement(all_of(f.floor_div(aligned, divisor) * divisor == aligned, within(a, aligned, a + divisor)))


def min_is_the_smaller(f: Formulas, a: Term, b: Term) -> Statement:
    """min_ is one of its arguments and exceeds neither."""
    least = f.min(a, b)
    return Statement(all_of(least <= a, least <= b, any_of(least == a, least == b)))


def clamp_is_the_nearest(f: Formulas, a: Term, b: Term, span: Term) -> Statement:
    """clamp leaves what is inside the bounds alone and moves what is outside to the bound it has passed."""
    low, high = b, b + span
    clamped = f.clamp(a, low, high)
    return Statement(
        all_of(
            within(low, clamped, high + 1),
            any_of(clamped == a, all_of(a < low, clamped == low), all_of(a > high, clamped == high)),
        )
    )


def padded_covers(f: Formulas, numel: Term, world_size: Term, alignment: Term) -> Statement:
    """The shards end to end have room for the whole parameter."""
    shard = f.shard_numel(numel, world_size, alignment)
    return Statement(f.padded_numel(shard, world_size) >= numel)


def padding_minimal(f: Formulas, numel: Term, world_size: Term, alignment: Term, fewer: Term) -> Statement:
    """No shorter shard would do: with any number of alignments less, W shards have no room for the parameter."""
    shard = f.shard_numel(numel, world_size, alignment)
    return Statement(f.padded_numel(shard - fewer * alignment, world_size) < numel)


def padding_bounded(f: Formulas, numel: Term, world_size: Term, alignment: Term) -> Statement:
    """All padding together is less than one alignment a rank."""
    padded = f.padded_numel(f.shard_numel(numel, world_size, alignment), world_size)
    return Statement(padded - numel < world_size * alignment)


def padded_grows_with_numel(f: Formulas, numel: Term, more: Term, world_size: Term, alignment: Term) -> Statement:
    """A longer parameter never has shorter shards, so the first numel that overflows can be found by halving."""
    shard, longer = (f.shard_numel(count, world_size, alignment) for count in (numel, numel + more))
    return Statement(all_of(shard <= longer, f.padded_numel(shard, world_size) <= f.padded_numel(longer, world_size)))


def owned_bounded(f: Formulas, numel: Term, world_size: Term, alignment: Term, rank: Term) -> Statement:
    """A rank owns no less than nothing and no more than its shard holds."""
    shard = f.shard_numel(numel, world_size, alignment)
    owned = f.owned(numel, shard, rank)
    return Statement(all_of(owned >= 0, owned <= shard))


def runs_hold_what_is_owned(f: Formulas, numel: Term, world_size: Term, alignment: Term, rank: Term) -> Statement:
    """The run of a flat shard holds as many elements as the rank owns, from the shard's first element on."""
    shard = f.shard_numel(numel, world_size, alignment)
    run = f.run(numel, shard, rank)
    return Statement(all_of(run.length == f.owned(numel, shard, rank), f.offset_at(run, rank - rank, rank) == rank))


def empty_shards_past_the_end(f: Formulas, numel: Term, world_size: Term, alignment: Term, rank: Term) -> Statement:
    """A rank owns nothing exactly where its shard starts at or past the parameter's end."""
    shard = f.shard_numel(numel, world_size, alignment)
    return Statement((f.owned(numel, shard, rank) == 0) == (f.run(numel, shard, rank).start >= numel))


def shards_tile(f: Formulas, numel: Term, world_size: Term, alignment: Term, rank: Term) -> Statement:
    """What ranks own starts at 0, goes on where the rank before left off, and ends with the parameter."""
    shard = f.shard_numel(numel, world_size, alignment)

    def edge(place: Term) -> Term:
        return f.min(f.run(numel, shard, place).start, numel)

    here = edge(rank)
    return Statement(
        all_of(
            edge(rank - rank) == 0,
            here + f.owned(numel, shard, rank) == edge(rank + 1),
            edge(world_size) == numel,
        )
    )


def owned_exactly_once(
    f: Formulas, numel: Term, world_size: Term, alignment: Term, index: Term, rank: Term
) -> Statement:
    """Every element lies on exactly one rank."""
    shard = f.shard_numel(numel, world_size, alignment)
    run = f.run(numel, shard, rank)
    holder = _slot(f, index, shard)
    holds = within(run.start, index, run.start + run.length)
    return Statement(all_of(within(0, holder, world_size), holds == (rank == holder)))


def padding_at_the_end_only(
    f: Formulas, numel: Term, world_size: Term, alignment: Term, rank: Term, later_rank: Term
) -> Statement:
    """Shards have one length, and all before one that owns anything are full."""
    shard = f.shard_numel(numel, world_size, alignment)
    full, empty = f.owned(numel, shard, rank) == shard, f.owned(numel, shard, later_rank) == 0
    return Statement(any_of(full, empty), given=rank < later_rank)


def boundaries_divisible(f: Formulas, numel: Term, world_size: Term, alignment: Term, rank: Term) -> Statement:
    """Shards start and end at multiples of the alignment, and the whole is a multiple of W times the alignment."""
    shard = f.shard_numel(numel, world_size, alignment)
    units = f.floor_div(shard, alignment)
    return Statement(
        all_of(
            units * alignment == shard,
            f.run(numel, shard, rank).start == rank * units * alignment,
            f.padded_numel(shard, world_size) == units * (world_size * alignment),
        )
    )


def slots_inside_the_buffer(f: Formulas, numel: Term, world_size: Term, alignment: Term, rank: Term) -> Statement:
    """Each rank's slot lies inside the gather buffer, and the last slot ends with it."""
    shard = f.shard_numel(numel, world_size, alignment)
    start = f.run(numel, shard, rank).start
    end, whole = start + shard, f.padded_numel(shard, world_size)
    return Statement(all_of(start >= 0, end <= whole, any_of(rank + 1 < world_size, end == whole)))


def order_kept(
    f: Formulas,
    numel: Term,
    world_size: Term,
    alignment: Term,
    rank: Term,
    offset: Term,
    later_rank: Term,
    later_offset: Term,
) -> Statement:
    """Elements that come later, by rank and then by offset, come later in the parameter."""
    shard = f.shard_numel(numel, world_size, alignment)
    run, later_run = f.run(numel, shard, rank), f.run(numel, shard, later_rank)
    comes_later = any_of(rank < later_rank, all_of(rank == later_rank, offset < later_offset))
    return Statement(
        f.position_at(run, rank - rank, offset) < f.position_at(later_run, rank - rank, later_offset),
        given=all_of(comes_later, offset < run.length, later_offset < later_run.length),
    )


def reshard_composes(
    f: Formulas,
    numel: Term,
    world_size: Term,
    alignment: Term,
    new_world_size: Term,
    new_alignment: Term,
    rank: Term,
    offset: Term,
) -> Statement:
    """Every owned place at W has one owned place at W' with the same element, and from there the way back leads home.

    W and W' may be exchanged, so this is a bijection between the owned places of the two.
    """
    old = f.shard_numel(numel, world_size, alignment)
    new = f.shard_numel(numel, new_world_size, new_alignment)
    run = f.run(numel, old, rank)
    element = f.position_at(run, rank - rank, offset)
    new_rank = _slot(f, element, new)
    new_run = f.run(numel, new, new_rank)
    new_offset = element - new_run.start
    back = f.position_at(new_run, rank - rank, new_offset)
    return Statement(
        all_of(
            within(0, new_rank, new_world_size),
            within(0, new_offset, new_run.length),
            _slot(f, back, old) == rank,
            back - run.start == offset,
        ),
        given=offset < run.length,
    )


def chunk_rows_tile(f: Formulas, size: Term, world_size: Term, inner: Term, outer: Term, rank: Term) -> Statement:
    """In every row of a chunked dim, chunks start at 0, go on where the one before left off, and end with the row."""
    chunk = f.shard_numel(size, world_size)

    def edge(place: Term) -> Term:
        return f.min(f.run(size, chunk, place, inner, outer).start, size * inner)

    run = f.run(size, chunk, rank, inner, outer)
    return Statement(
        all_of(
            edge(rank - rank) == 0,
            edge(rank) + run.length == edge(rank + 1),
            edge(world_size) == size * inner,
            run.stride == size * inner,
            run.count == outer,
        )
    )


def chunk_inside(
    f: Formulas, size: Term, world_size: Term, inner: Term, outer: Term, rank: Term, row: Term, spot: Term
) -> Statement:
    """Every place of a chunk's run lies inside the parameter and inside the chunk."""
    run = f.run(size, f.shard_numel(size, world_size), rank, inner, outer)
    return Statement(
        all_of(
            within(0, f.position_at(run, row, spot), outer * size * inner),
            within(0, f.offset_at(run, row, spot), run.length * run.count),
        ),
        given=spot < run.length,
    )


def chunk_owned_by_someone(
    f: Formulas, size: Term, world_size: Term, inner: Term, outer: Term, row: Term, slice_: Term, column: Term
) -> Statement:
    """Every element of a chunked parameter lies on the rank that has its slice, in the block of its row."""
    chunk = f.shard_numel(size, world_size)
    holder = _slot(f, slice_, chunk)
    run = f.run(size, chunk, holder, inner, outer)
    offset = (slice_ - holder * chunk) * inner + column
    return Statement(
        all_of(
            within(0, holder, world_size),
            within(0, offset, run.length),
            f.position_at(run, row, offset) == (row * size + slice_) * inner + column,
        )
    )


def chunk_owned_once(  # noqa: PLR0913, PLR0917  # a parameter is a variable of the claim
    f: Formulas,
    size: Term,
    world_size: Term,
    inner: Term,
    outer: Term,
    rank: Term,
    row: Term,
    spot: Term,
    other_rank: Term,
    other_row: Term,
    other_spot: Term,
) -> Statement:
    """No two places of a chunked parameter hold the same element."""
    chunk = f.shard_numel(size, world_size)
    run, other = (f.run(size, chunk, place, inner, outer) for place in (rank, other_rank))
    same_place = all_of(rank == other_rank, row == other_row, spot == other_spot)
    return Statement(
        any_of(same_place, negated(f.position_at(run, row, spot) == f.position_at(other, other_row, other_spot))),
        given=all_of(spot < run.length, other_spot < other.length),
    )


def bucket_ends_divisible(f: Formulas, used: Term, world_size: Term, multiple: Term) -> Statement:
    """A bucket's end, aligned to any multiple k*W of the world size, gives every rank a share of k times something.

    The lcm of W and a bucket's alignment is such a multiple, by what an lcm is.
    """
    end = f.align_up(used, multiple * world_size)
    share = f.floor_div(end, world_size)
    return Statement(
        all_of(
            share * world_size == end,
            share == multiple * f.ceil_div(used, multiple * world_size),
            within(used, end, used + multiple * world_size),
        )
    )


def bucket_shares_equal(f: Formulas, units: Term, world_size: Term, rank: Term) -> Statement:
    """A bucket whose end W divides is cut into W equal shares, in the order of the ranks."""
    end = units * world_size
    mine = f.share(rank - rank, end, rank - rank, end, world_size, rank)
    return Statement(all_of(mine.local == 0, mine.start == rank * units, mine.length == units))


def bucket_shares_tile(
    f: Formulas,
    first_unit: Term,
    units: Term,
    multiple: Term,
    world_size: Term,
    start: Term,
    numel: Term,
    rank: Term,
) -> Statement:
    """A parameter in a bucket is cut without gap or overlap: each rank goes on where the one before left off."""
    low, high = first_unit * (multiple * world_size), (first_unit + units) * (multiple * world_size)
    here, following, first, last = (
        f.share(low, high, start, numel, world_size, place) for place in (rank, rank + 1, rank - rank, world_size - 1)
    )
    return Statement(
        all_of(
            first.start == 0,
            here.length >= 0,
            here.start + here.length == following.start,
            last.start + last.length == numel,
        ),
        given=all_of(low <= start, start + numel <= high),
    )


def bucket_shares_apart(
    f: Formulas,
    first_unit: Term,
    units: Term,
    multiple: Term,
    world_size: Term,
    start: Term,
    numel: Term,
    rank: Term,
) -> Statement:
    """What a rank stores of a parameter lies in its share of that bucket and keeps the order of the buffer.

    So no two parameters meet in a shard, whether they share a bucket or not.
    """
    low, high = first_unit * (multiple * world_size), (first_unit + units) * (multiple * world_size)
    run = f.share(low, high, start, numel, world_size, rank)
    before, after = f.floor_div(low, world_size), f.floor_div(high, world_size)
    in_share = run.local - before
    return Statement(
        all_of(
            before <= run.local,
            run.local + run.length <= after,
            low + rank * (after - before) + in_share == start + run.start,
        ),
        given=all_of(low <= start, start + numel <= high, run.length > 0),
    )


def _slot(f: Formulas, index: Term, shard: Term) -> Term:
    """The rank in whose slot an element lies. A wrong formula may give empty shards, and division by 0 says nothing."""
    return f.floor_div(index, shard + (shard == 0) * 1)


CLAIMS = tuple(
    Claim(says)
    for says in (
        floor_div_is_the_floor,
        ceil_div_is_the_ceiling,
        align_up_is_the_next_multiple,
        min_is_the_smaller,
        clamp_is_the_nearest,
        padded_covers,
        padding_minimal,
        padding_bounded,
        padded_grows_with_numel,
        owned_bounded,
        runs_hold_what_is_owned,
        empty_shards_past_the_end,
        shards_tile,
        owned_exactly_once,
        padding_at_the_end_only,
        boundaries_divisible,
        slots_inside_the_buffer,
        order_kept,
        reshard_composes,
        chunk_rows_tile,
        chunk_inside,
        chunk_owned_by_someone,
        chunk_owned_once,
        bucket_ends_divisible,
        bucket_shares_equal,
        bucket_shares_tile,
        bucket_shares_apart,
    )
)
