"""An index map drawn as plain text: which elements of a parameter each rank stores, around one of them.

Every cell is answered by run arithmetic, so a parameter of 2^62 elements is drawn as quickly as one of five.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from reference import Layout, locate, owners

WIDTH = 100
_MOST_RANKS = 8
_FEWEST_OFFSETS = 3
_LEGEND = (("[", "[n] is the first wrong element"), ("pad", "pad is padding"), ("...", "... goes on alike"))

# Ranks or offsets to show; None stands for those that are left out between two of them.
_Columns = list[int | None]


def draw(layout: Layout, wrong: int | None = None, *, around: int | None = None, width: int = WIDTH) -> str:
    """Rank rows over columns of local offsets; a cell is the parameter's element (its row-major index) stored there.

    `wrong` is marked on every rank that stores it, and the drawing is centred on it; where no rank does, on the local
    offset `around`, and without one on where padding begins. Ranks and offsets that fit neither are left out. `width`
    is kept where the numbers allow it.
    """
    places = owners(layout, wrong) if wrong is not None and 0 <= wrong < layout.numel else ()
    ranks = _shown_ranks(layout, [rank for rank, _ in places])
    focus = [offset for _, offset in places] or [offset for offset in (around,) if offset is not None]
    wanted = _wanted_offsets(layout, ranks, focus)
    for count in range(len(wanted), -1, -1):
        lines = _lines(layout, ranks, _columns(layout, wanted[:count]), wrong)
        if count <= _FEWEST_OFFSETS or max(map(len, lines)) <= width:
            break
    return "\n".join(lines)


def legend(drawing: str) -> str:
    """What the marks that a drawing uses mean; empty where it uses none."""
    return ", ".join(meaning for mark, meaning in _LEGEND if mark in drawing)


def coordinates(shape: Sequence[int], index: int) -> tuple[int, ...]:
    """The coordinates of element `index` of the row-major order, exact for any numel."""
    found = []
    for size in reversed(shape):
        index, coordinate = divmod(index, size)
        found.append(coordinate)
    return tuple(reversed(found))


def _shown_ranks(layout: Layout, holders: Sequence[int]) -> _Columns:
    """All ranks where they are few; else the ends, the neighbours of those that hold the element, and the partial."""
    last = layout.world_size - 1
    if last < _MOST_RANKS:
        return list(range(last + 1))
    partial = [rank for rank in range(last + 1) if 0 < layout.owned(rank) < layout.shard_numel(rank)]
    wanted = [0, last]
    for rank in [*holders[:2], *partial[:1]]:
        wanted += [rank - 1, rank, rank + 1]
    return _with_gaps(rank for rank in wanted if 0 <= rank <= last)


def _wanted_offsets(layout: Layout, ranks: _Columns, focus: Sequence[int]) -> list[int]:
    """The local offsets worth showing, the most telling first: the focus, the ends, where padding begins."""
    present = [rank for rank in ranks if rank is not None]
    longest = _longest(layout)
    padding = [layout.owned(rank) for rank in present if layout.owned(rank) < layout.shard_numel(rank)]
    centre = focus[0] if focus else max(padding, default=0)
    edge = max((offset for offset in padding if offset), default=centre)
    near = (centre, centre + 1, centre - 1, 0, longest - 1, edge, edge - 1, centre + 2, centre - 2, 1, *focus[1:3])
    return [offset for offset in dict.fromkeys(near) if 0 <= offset < longest]


def _longest(layout: Layout) -> int:
    return max(layout.shard_numel(rank) for rank in range(layout.world_size))


def _columns(layout: Layout, offsets: Sequence[int]) -> _Columns:
    """The offsets in order, with gaps between them and at the ends."""
    columns = _with_gaps(offsets)
    before, after = columns[:1] != [0], columns[-1:] != [_longest(layout) - 1]
    return [*[None][:before], *columns, *[None][:after]] if columns else []


def _with_gaps(numbers: Iterable[int]) -> _Columns:
    """The numbers in rising order, a gap wherever some are left out; a gap of one number is that number."""
    ordered = sorted(set(numbers))
    found: _Columns = list(ordered[:1])
    for before, after in pairwise(ordered):
        if after == before + 2:
            found.append(before + 1)
        elif after > before + 1:
            found.append(None)
        found.append(after)
    return found


def _lines(layout: Layout, ranks: _Columns, columns: _Columns, wrong: int | None) -> list[str]:
    rows = [["offset", *("..." if column is None else f"{column} " for column in columns), ""]]
    for rank in ranks:
        if rank is None:
            rows.append(["...", *[""] * (len(columns) + 1)])
        else:
            rows.append([f"rank {rank}", *_cells(layout, rank, columns, wrong), _owns(layout, rank)])
    return list(_aligned(rows))


def _cells(layout: Layout, rank: int, columns: _Columns, wrong: int | None) -> Iterator[str]:
    stored, before = layout.shard_numel(rank), -1
    for column in columns:
        if column is None:
            yield "..." if before + 1 < stored else ""
            continue
        before = column
        if column >= stored:
            yield ""
            continue
        index = locate(layout, rank, column)
        if index is None:
            yield "pad "
        else:
            yield f"[{index}]" if index == wrong else f"{index} "


def _owns(layout: Layout, rank: int) -> str:
    stored = layout.shard_numel(rank)
    return f"owns {layout.owned(rank)} of {stored}" if stored else "stores nothing"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns padded to equal width: names to the left, numbers to the right, remarks as they are."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells, remark in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:-1], strict=True))
        yield "  ".join([name.ljust(widths[0]), *numbers, remark]).rstrip()
