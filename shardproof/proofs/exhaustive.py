"""Tries claims at every small size, vectorised: the lines that are proved, on NumPy integers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from shardproof.proofs.claims import Claim
from shardproof.proofs.formulas import Formulas

Grid = dict[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Trial:
    """One claim at every point of its grid.

    `tried` counts the points at which the claim says something, `lasts` is where the grid ends, and `counterexample`
    the first point that breaks the claim.
    """

    slug: str
    tried: int
    lasts: Mapping[str, int]
    counterexample: Mapping[str, int] | None
    milliseconds: float


def try_all(claims: Iterable[Claim], formulas: Formulas | None = None) -> Iterator[Trial]:
    """Each claim in turn, at every point of its grid or up to the first that breaks it."""
    for claim in claims:
        started = time.monotonic()
        lasts = _lasts(claim)
        tried, broken = 0, None
        for grid in _grids(claim, lasts):
            said = claim.says(formulas or Formulas(), **grid)
            shape = np.broadcast_shapes(*(axis.shape for axis in grid.values()))
            tried += _count(True if said.given is None else said.given, shape)
            broken = _first_broken(said.whole, shape, grid)
            if broken:
                break
        yield Trial(claim.slug, tried, lasts, broken, (time.monotonic() - started) * 1000)


def _lasts(claim: Claim) -> Mapping[str, int]:
    """Where the grid ends in each variable that has no end of its own.

    The grid is large where the only variable beside those is a rank; claims that pair places have too many points.
    """
    free = {name: domain for name, domain in claim.domains.items() if domain.below is None}
    many = {name: domain.many for name, domain in free.items() if domain.many is not None}
    if len(many) == len(free) and claim.domains.keys() - free.keys() <= {"rank"}:
        return many
    return {name: domain.few for name, domain in free.items()}


def _grids(claim: Claim, lasts: Mapping[str, int]) -> Iterator[Grid]:
    """All points, as open grids: one for each choice of the variables that bound others, one axis for each other."""
    domains = claim.domains
    bounding = [name for name in lasts if any(domain.below == name for domain in domains.values())]
    for chosen in product(*(_values(claim, name, lasts[name] + 1) for name in bounding)):
        fixed = dict(zip(bounding, map(int, chosen), strict=True))
        ends = {name: fixed[domain.below] if domain.below else lasts[name] + 1 for name, domain in domains.items()}
        axes = [np.array([fixed[name]]) if name in fixed else _values(claim, name, ends[name]) for name in domains]
        if all(axis.size for axis in axes):
            yield dict(zip(domains, np.ix_(*axes), strict=True))


def _values(claim: Claim, name: str, end: int) -> npt.NDArray[np.int64]:
    """From the variable's least value to below `end`; without a least value those as far below 0, small ones first."""
    least = claim.domains[name].least
    if least is not None:
        return np.arange(least, end, dtype=np.int64)
    return np.array(sorted(range(1 - end, end), key=abs), dtype=np.int64)


def _count(truth: Any, shape: tuple[int, ...]) -> int:
    return int(np.count_nonzero(np.broadcast_to(truth, shape)))


def _first_broken(truth: Any, shape: tuple[int, ...], grid: Grid) -> Mapping[str, int] | None:
    """The grid's first point at which the claim is not true."""
    if np.all(truth):
        return None
    place = np.unravel_index(int(np.argmin(np.broadcast_to(truth, shape))), shape)
    return {name: int(np.broadcast_to(axis, shape)[place]) for name, axis in grid.items()}
