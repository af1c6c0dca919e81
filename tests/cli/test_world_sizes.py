from __future__ import annotations

import pytest

from shardproof.errors import UsageError
from shardproof.world_sizes import parse_world_sizes

SIZES: list[tuple[str, tuple[int, ...]]] = [
    ("1", (1,)),
    ("1-8", (1, 2, 3, 4, 5, 6, 7, 8)),
    ("1,2,4", (1, 2, 4)),
    ("1-4,8", (1, 2, 3, 4, 8)),
    ("8, 2 ,2,1-2", (1, 2, 8)),
    ("3-3", (3,)),
    ("64", (64,)),
    ("008", (8,)),
]
NO_SIZES = [
    "",
    " ",
    ",",
    "1,",
    "0",
    "0-3",
    "8-1",
    "a",
    "1-a",
    "-1",
    "1-",
    "-",
    "1--2",
    "1.5",
    "65",
    "1-65",
    "99999",
    "1;2",
    "²",
]


@pytest.mark.parametrize(("text", "sizes"), SIZES)
def test_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_world_sizes(text) == sizes


@pytest.mark.parametrize("text", NO_SIZES)
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="these are no world sizes") as caught:
        parse_world_sizes(text)
    assert caught.value.where == "--world-sizes"
    assert '"1-4,8"' in caught.value.todo
