"""Checks of a layout against plain lists of what lies in each rank's shard, for several test modules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from reference import (
    PADDING,
    Layout,
    gather,
    index_map,
    locate,
    norm_squared,
    owners,
    partition,
    reduce_scatter,
)

Shards = list[list[int]]
Check = Callable[[Layout, Shards], None]


@pytest.fixture(scope="session")
def agree() -> Check:
    """Asserts that every question to a layout has the answer that the lists show."""
    return _agree


@pytest.fixture(scope="session")
def work_alike() -> Check:
    """Asserts that every operation gives what a walk over the lists gives."""
    return _work_alike


def _agree(layout: Layout, shards: Shards) -> None:
    """Every question to the layout has the answer that the lists show."""
    places: dict[int, list[tuple[int, int]]] = {element: [] for element in range(layout.numel)}
    for rank, shard in enumerate(shards):
        owned = [element for element in shard if element != PADDING]
        assert (layout.shard_numel(rank), layout.owned(rank)) == (len(shard), len(owned))
        assert sum(run.length * run.count for run in layout.runs(rank)) == len(owned)
        assert index_map(layout, rank).tolist() == shard
        for offset, element in enumerate(shard):
            assert locate(layout, rank, offset) == (None if element == PADDING else element)
            if element != PADDING:
                places[element].append((rank, offset))
    assert len(shards) == layout.world_size
    assert all(owners(layout, element) == tuple(found) for element, found in places.items())


def _work_alike(layout: Layout, shards: Shards) -> None:
    """Every operation gives what a walk over the lists gives."""
    values = np.arange(3, 3 + layout.numel, dtype=np.int64).reshape(layout.shape)
    flat = values.reshape(-1).tolist()
    cut = partition(values, layout, fill=-9)
    assert [shard.tolist() for shard in cut] == [[-9 if e == PADDING else flat[e] for e in shard] for shard in shards]
    together = gather(cut, layout)
    assert together.shape == layout.shape
    assert np.array_equal(together, values)
    assert norm_squared(cut, layout) == sum(value * value for value in flat)
    weights = range(1, layout.world_size + 1)
    reduced = reduce_scatter([weight * values for weight in weights], layout, "sum")
    assert [shard.tolist() for shard in reduced] == [
        [0 if e == PADDING else sum(weights) * flat[e] for e in shard] for shard in shards
    ]
