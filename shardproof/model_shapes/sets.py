"""The known models by name, and the parameters each of them has."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod
from typing import Any

from shardproof.model_shapes.families import FAMILIES
from shardproof.model_shapes.sizes import Sizes
from shardproof.names import unknown

_ABOUT = ("title", "source", "family", "dtype", "total")


@dataclass(frozen=True, slots=True)
class ModelParameter:
    """`count` parameters of one shape; a star in the name stands for a layer's or an expert's number."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    count: int

    @property
    def numel(self) -> int:
        """Elements of one of them."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class ShapeSet:
    """One model: its parameters, and where its sizes come from."""

    name: str
    title: str
    source: str
    sizes: Sizes
    known_total: int
    parameters: tuple[ModelParameter, ...]

    @property
    def total(self) -> int:
        """Elements of all parameters, each shared one counted once."""
        return sum(parameter.numel * parameter.count for parameter in self.parameters)


def shape_sets() -> tuple[str, ...]:
    """The names that `shape_set` knows."""
    return tuple(_table())


@cache
def shape_set(name: str) -> ShapeSet:
    """The model of that name. Raises UsageError, listing the known names and the nearest, where there is none."""
    if name not in _table():
        raise unknown("shape set", name, shape_sets(), where="--shapes")
    row = _table()[name]
    sizes = Sizes(**{key: value for key, value in row.items() if key not in _ABOUT})
    rows = FAMILIES[row["family"]](sizes)
    parameters = tuple(ModelParameter(each, shape, row["dtype"], count) for each, shape, count in rows)
    return ShapeSet(name, row["title"], row["source"], sizes, row["total"], parameters)


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = files("shardproof.model_shapes").joinpath("sizes.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
