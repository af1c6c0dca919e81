"""Questions to an index map: which element lies here, and where does this element lie."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.layout import Layout, checked_below
from reference.runs import offset_of, position_of

PADDING = -1


def index_map(layout: Layout, rank: int) -> npt.NDArray[np.int64]:
    """For each element of the rank's shard its index in the parameter's row-major order, or PADDING.

    Shape (shard_numel(rank),); one int64 an element, so for layouts that fit into memory.
    """
    found = np.full(layout.shard_numel(rank), PADDING, np.int64)
    for run in layout.runs(rank):
        starts = run.start + np.arange(run.count, dtype=np.int64) * run.stride
        positions = starts[:, None] + np.arange(run.length, dtype=np.int64)
        found[run.local : run.local + run.numel] = positions.reshape(-1)
    return found


def locate(layout: Layout, rank: int, offset: int) -> int | None:
    """The parameter's element at `offset` in the rank's shard, None for padding. Exact for any numel.

    Raises ValueError for an offset outside of the shard.
    """
    checked_below("offset", offset, layout.shard_numel(rank))
    positions = (position_of(run, offset) for run in layout.runs(rank))
    return next((position for position in positions if position is not None), None)


def owners(layout: Layout, index: int) -> tuple[tuple[int, int], ...]:
    """Every (rank, offset) that holds element `index` of the parameter, by rising rank. Exact for any numel.

    Raises ValueError for an index outside of the parameter.
    """
    checked_below("index", index, layout.numel)
    places = ((rank, offset_of(run, index)) for rank in range(layout.world_size) for run in layout.runs(rank))
    return tuple((rank, offset) for rank, offset in places if offset is not None)
