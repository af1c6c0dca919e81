"""What a rank says it registers, and how ranks' manifests differ, in words.

A manifest is canonical JSON, so that equal manifests have equal digests. What decides a size or a dtype of any later
collective is in it, so ranks that agree on it cannot run into one with different ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from gpu_impl.exchange import on_ranks

# The longest list of differences that still helps.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One parameter of a manifest. Dtypes go by name."""

    id: str
    shape: tuple[int, ...]
    dtype: str
    shard_numel: int
    padded_numel: int
    trainable: bool
    tied_to: str | None
    comm_dtype: str | None


FIELDS = ("shape", "dtype", "shard_numel", "padded_numel", "trainable", "tied_to", "comm_dtype")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one rank registers under which alignment, and why it cannot, where it cannot."""

    alignment: int
    entries: tuple[Entry, ...] = ()
    objections: tuple[str, ...] = ()

    def encode(self) -> str:
        """As text; equal manifests give equal text."""
        rows = [[entry.id, *(getattr(entry, name) for name in FIELDS)] for entry in self.entries]
        return json.dumps([self.alignment, rows, self.objections])


def decode(text: str) -> Manifest:
    """The manifest that `encode` wrote."""
    alignment, rows, objections = json.loads(text)
    return Manifest(alignment, tuple(_entry(row) for row in rows), tuple(objections))


def _entry(row: Sequence[Any]) -> Entry:
    id, shape, *others = row
    return Entry(id, tuple(shape), *others)


def refusal(manifests: Sequence[Manifest]) -> str:
    """Why these manifests, one a rank, cannot be registered; the same text from the same manifests."""
    found = list(_differences(manifests))
    if len(found) > _SHOWN:
        found[_SHOWN:] = [f"and {len(found) - _SHOWN} differences more"]
    everywhere = f"registration refused on all {len(manifests)} ranks, nothing was registered"
    return "\n  ".join([everywhere, *found, "register the same parameters, in the same order, on every rank"])


def _differences(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Objections first: what else differs may follow from them."""
    objections = [(rank, text) for rank, manifest in enumerate(manifests) for text in manifest.objections]
    for text in dict.fromkeys(text for _, text in objections):
        yield f"{text} on {on_ranks([rank for rank, other in objections if other == text])}"
    if objections:
        return
    yield from _differing("alignment", manifests, attrgetter("alignment"))
    orders = [tuple(entry.id for entry in manifest.entries) for manifest in manifests]
    if len(set(orders)) > 1:
        yield from _different_ids(orders)
        return
    for number, id in enumerate(orders[0]):
        for name in FIELDS:
            rows = [manifest.entries[number] for manifest in manifests]
            yield from _differing(f'parameter "{id}": {name}', rows, attrgetter(name))


def _different_ids(orders: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Ranks register other parameters, another number of them, or another order."""
    yield from _differing("number of parameters", orders, len)
    everyone = dict.fromkeys(id for order in orders for id in order)
    lacking = {id: [rank for rank, order in enumerate(orders) if id not in order] for id in everyone}
    for id, ranks in lacking.items():
        if ranks:
            others = [rank for rank in range(len(orders)) if rank not in ranks]
            yield f'parameter "{id}": registered on {on_ranks(others)}, not on {on_ranks(ranks)}'
    if not any(lacking.values()):
        place = next(number for number in range(len(everyone)) if len({order[number] for order in orders}) > 1)
        yield from _differing(
            f"order of parameters: number {place}", orders, lambda order: f'parameter "{order[place]}"'
        )


def _differing(what: str, rows: Sequence[Any], value_of: Callable[[Any], Hashable]) -> Iterator[str]:
    """One line where ranks have different values: each value and the ranks that have it."""
    ranks_with: dict[Hashable, list[int]] = {}
    for rank, row in enumerate(rows):
        ranks_with.setdefault(value_of(row), []).append(rank)
    if len(ranks_with) > 1:
        yield f"{what} is " + ", ".join(f"{value} on {on_ranks(ranks)}" for value, ranks in ranks_with.items())
