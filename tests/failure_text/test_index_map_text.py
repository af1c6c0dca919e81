"""The drawn index map against drawings made by hand, and cell by cell against plain arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

import pytest

from reference import Bucketed, Chunk, FlatPadded, Grouped, InBucket, Layout, Ragged, TwoDimensional
from shardproof.index_map_text import WIDTH, coordinates, draw, legend

DRAWINGS: list[tuple[Layout, int | None, str]] = [
    (
        FlatPadded((5,), 4),
        4,
        """
        offset    0    1
        rank 0    0    1   owns 2 of 2
        rank 1    2    3   owns 2 of 2
        rank 2   [4]  pad   owns 1 of 2
        rank 3  pad  pad   owns 0 of 2
        """,
    ),
    (
        FlatPadded((3,), 2, 4),
        None,
        """
        offset   0    1    2    3
        rank 0   0    1    2  pad  owns 3 of 4
        rank 1  pad pad  pad  pad  owns 0 of 4
        """,
    ),
    (
        Chunk((2, 3), 4, 1),
        4,
        """
        offset  0   1
        rank 0  0   3   owns 2 of 2
        rank 1  1  [4]  owns 2 of 2
        rank 2  2   5   owns 2 of 2
        rank 3          stores nothing
        """,
    ),
    (
        Chunk((5, 6), 3),
        9,
        """
        offset   0   1  ...   7   8   9  10  11
        rank 0   0   1  ...   7   8  [9] 10  11  owns 12 of 12
        rank 1  12  13  ...  19  20  21  22  23  owns 12 of 12
        rank 2  24  25  ...                      owns 6 of 6
        """,
    ),
    (
        InBucket(Bucketed(((2,), (3,)), 4, None, 4), 1),
        1,
        """
        offset 0   1
        rank 0        stores nothing
        rank 1        stores nothing
        rank 2 0 [1]  owns 2 of 2
        rank 3 2      owns 1 of 1
        """,
    ),
    (
        Grouped(FlatPadded((3,), 2), 2),
        2,
        """
        offset 0   1
        rank 0 0   1   owns 2 of 2
        rank 1 [2] pad owns 1 of 2
        rank 2 0   1   owns 2 of 2
        rank 3 [2] pad owns 1 of 2
        """,
    ),
    (
        TwoDimensional((2, 3), (2, 2), 1),
        None,
        """
        offset 0   1
        rank 0 0   1   owns 2 of 2
        rank 1 2       owns 1 of 1
        rank 2 3   4   owns 2 of 2
        rank 3 5       owns 1 of 1
        """,
    ),
    (
        Ragged((5,), (0, 4, 1)),
        4,
        """
        offset 0   1  2  3
        rank 0              stores nothing
        rank 1 0   1  2  3  owns 4 of 4
        rank 2 [4]          owns 1 of 1
        """,
    ),
    (
        FlatPadded((0, 7), 2),
        None,
        """
        offset
        rank 0  stores nothing
        rank 1  stores nothing
        """,
    ),
    (
        FlatPadded((100,), 32),
        99,
        """
        offset   0   1    2    3
        rank 0   0   1    2    3  owns 4 of 4
        ...
        rank 23 92  93   94   95  owns 4 of 4
        rank 24 96  97   98  [99] owns 4 of 4
        rank 25 pad pad  pad  pad owns 0 of 4
        ...
        rank 31 pad pad  pad  pad owns 0 of 4
        """,
    ),
]


@pytest.mark.parametrize(("layout", "wrong", "drawing"), DRAWINGS)
def test_small_maps(layout: Layout, wrong: int | None, drawing: str) -> None:
    assert squeezed(draw(layout, wrong)) == squeezed(drawing)


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


SHAPES = [(1,), (7,), (5, 3), (4, 6), (2, 3, 4), (151_936, 4096), (2**31 + 11, 2**31 - 1)]
# alignment of a flat padded layout, or the dim of a chunked one
CUTS = [("flat", 1), ("flat", 16), ("chunk", 0), ("chunk", -1)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_cell_is_what_lies_there(shape: tuple[int, ...], cut: tuple[str, int], world_size: int) -> None:
    kind, number = cut
    layout: Layout = (
        FlatPadded(shape, world_size, number) if kind == "flat" else Chunk(shape, world_size, number % len(shape))
    )
    for wrong in {0, layout.numel // 2, layout.numel - 1}:
        drawing = draw(layout, wrong)
        expected = f"[{wrong}]"
        seen = list(cells(drawing))
        assert [cell for _, _, cell in seen].count(expected) == 1
        for rank, offset, cell in seen:
            index = plain_index(shape, cut, world_size, rank, offset)
            assert cell == (expected if index == wrong else str(index)), drawing


def cells(drawing: str) -> Iterator[tuple[int, int, str]]:
    """(rank, offset, text) of every cell below an offset; it ends where the offset does, or one further for a mark."""
    head, *rows = drawing.splitlines()
    words = re.finditer(r"\d+|\.\.\.", head)
    columns = [(match.end() + (match.group() != "..."), match.group()) for match in words]
    for row in rows:
        name, begin = re.match(r"rank (\d+)", row), 6
        if name is None:
            assert row == "..."
            continue
        for end, offset in columns:
            if offset != "...":
                yield int(name[1]), int(offset), row[max(begin, name.end()) : end].strip()
            begin = end


def plain_index(shape: tuple[int, ...], cut: tuple[str, int], world_size: int, rank: int, offset: int) -> int | str:
    """What a cell must hold, said as plainly as it can be."""
    kind, number = cut
    if kind == "flat":
        shard = -(-prod(shape) // world_size)
        shard = -(-shard // number) * number
        index = rank * shard + offset
        return "" if offset >= shard else index if index < prod(shape) else "pad"
    dim = number % len(shape)
    chunk = -(-shape[dim] // world_size)
    own = max(0, min(chunk, shape[dim] - rank * chunk))
    inner = prod(shape[dim + 1 :])
    if offset >= prod(shape[:dim]) * own * inner:
        return ""
    outer, rest = divmod(offset, own * inner)
    return outer * shape[dim] * inner + rank * chunk * inner + rest


@pytest.mark.parametrize("world_size", [1, 8, 64, 1000])
def test_a_drawing_of_a_real_parameter_keeps_its_width(world_size: int) -> None:
    drawing = draw(FlatPadded((151_936, 4096), world_size), 151_936 * 4095)
    assert max(map(len, drawing.splitlines())) <= WIDTH
    assert len(drawing.splitlines()) <= 12


def test_an_element_outside_of_the_parameter_is_not_marked() -> None:
    assert draw(FlatPadded((3,), 2), 3) == draw(FlatPadded((3,), 2))
    assert draw(FlatPadded((3,), 2), -1) == draw(FlatPadded((3,), 2))


def test_the_legend_explains_what_is_there() -> None:
    assert legend(draw(FlatPadded((4,), 2))) == ""
    assert legend(draw(FlatPadded((3,), 2))) == "pad is padding"
    marks = ["[n] is the first wrong element", "pad is padding", "... goes on alike"]
    assert legend(draw(FlatPadded((100_001,), 2), 7)) == ", ".join(marks)


def test_coordinates() -> None:
    assert coordinates((), 0) == ()
    assert coordinates((5, 3), 7) == (2, 1)
    assert coordinates((2**31, 2**31), 2**61 + 5) == (2**30, 5)
