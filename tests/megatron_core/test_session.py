"""The layout and the session hold what plain rounding and cutting say, in lists alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context

GROUPS = [(0,), (2,), (0, 1), (1, 2), (0, 1, 2)]
NUMELS = [3, 70, 0, 200, 1]


def laid_out(numels: list[int], size: int, *, apart: bool) -> list[tuple[int, int, int]]:
    """Each parameter's start and the start and end of its bucket; `apart`: a bucket is full with its first element."""
    multiple = next(m for m in range(128, 128 * 9, 128) if m % size == 0)
    found: list[tuple[int, int]] = []
    low, used, highs = 0, 0, {}
    for numel in numels:
        if apart and used > low:
            highs[low] = -(-used // multiple) * multiple
            low = used = highs[low]
        start = -(-used // 64) * 64
        found.append((start, low))
        used = start + numel
    highs[low] = -(-used // multiple) * multiple
    return [(start, low, highs[low]) for start, low in found]


def owned(place: tuple[int, int, int], numel: int, rank: int, size: int) -> list[int]:
    """The elements of a parameter that lie in the rank's share of its bucket."""
    start, low, high = place
    share = (high - low) // size
    mine = range(low + rank * share, low + (rank + 1) * share)
    return [element for element in range(numel) if start + element in mine]


def claimed(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """What `layout` says of every parameter, rank and world size."""
    from shardproof.adapters.megatron_core import layout

    shapes = [(numel,) for numel in payload["numels"]]
    said = {"shapes": shapes} | ({"bucket_least": 1} if payload["apart"] else {})
    return [
        [[layout(shape, rank, size, index=index, **said) for rank in range(size)] for index, shape in enumerate(shapes)]
        for size in payload["sizes"]
    ], []


@pytest.mark.parametrize("apart", [False, True])
def test_the_layout(three_ranks: Ranks, apart: bool) -> None:
    sizes = [1, 2, 3, 5, 8]
    payload = {"numels": NUMELS, "sizes": sizes, "apart": apart}
    [told, *_] = three_ranks.values(claimed, payload, world_size=1, deadline=120)
    for size, of_size in zip(sizes, told, strict=True):
        places = laid_out(NUMELS, size, apart=apart)
        for numel, place, of_parameter in zip(NUMELS, places, of_size, strict=True):
            for rank, claim in enumerate(of_parameter):
                elements = owned(place, numel, rank, size)
                runs = [[0, elements[0], len(elements), len(elements), 1]] if elements else []
                assert claim["shard_numel"] == len(elements)
                assert [list(run) for run in claim["runs"]] == runs
                assert list(claim["place"]) == list(place)
                assert claim["padded_numel"] == place[2] - place[1]


def lived(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """Register, look, write, gather, accumulate, reduce: what a rank saw, as lists."""
    import torch

    from shardproof.adapters.megatron_core import Session

    ranks, numels = payload["ranks"], payload["numels"]
    if context.rank not in ranks:
        return None, []
    rank, ids = ranks.index(context.rank), [f"p{at}" for at in range(len(numels))]
    layout = {"bucket_least": 1 if payload["apart"] else None}
    session = Session(context.group(ranks), torch.device("cpu"), layout)
    fulls = [torch.arange(numel, dtype=torch.float32) for numel in numels]
    named, trained = dict(zip(ids, fulls, strict=True)), {"requires_grad": True, "tied_to": None}
    given = [SimpleNamespace(id=id, full=full, **trained) for id, full in named.items()]
    session.register([*given, SimpleNamespace(id="tied", full=fulls[0], requires_grad=True, tied_to="p0")])
    told: dict[str, Any] = {"shards": [session.shard(id).tolist() for id in ids]}
    for id in ids:
        session.update(id, session.shard(id) + 1000)
    told["gathered"] = [session.gather(id).tolist() for id in ids]
    told["tied"] = session.gather("tied").tolist()
    told["reduced"] = []
    for reduction in ("sum", "mean", "sum"):
        grads = {id: full * (rank + 1) * 12 for id, full in named.items()}
        session.accumulate(grads)
        session.accumulate({"p1": grads["p1"]})
        told["reduced"].append([shard.tolist() for shard in session.reduce(grads, reduction).values()])
    try:
        session.register([SimpleNamespace(id="frozen", full=fulls[0], requires_grad=False, tied_to=None)])
    except ValueError as error:
        told["frozen"] = str(error)
    return told, []


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("ranks", GROUPS, ids=str)
def test_what_a_session_shows(three_ranks: Ranks, ranks: tuple[int, ...], apart: bool) -> None:
    size = len(ranks)
    payload = {"ranks": ranks, "numels": NUMELS, "apart": apart}
    values = three_ranks.values(lived, payload, world_size=3, deadline=120)
    places = laid_out(NUMELS, size, apart=apart)
    for rank, told in enumerate(values[pool_rank] for pool_rank in ranks):
        mine = [owned(place, numel, rank, size) for place, numel in zip(places, NUMELS, strict=True)]
        assert told["shards"] == mine
        assert told["gathered"] == [[element + 1000 for element in range(numel)] for numel in NUMELS]
        assert told["tied"] == told["gathered"][0]
        assert "frozen" in told["frozen"]
        total = 12 * sum(range(1, size + 1))
        for reduced, scale in zip(told["reduced"], (total, total // size, total), strict=True):
            times = [scale * (3 if at == 1 else 2) for at in range(len(NUMELS))]
            assert reduced == [[element * by for element in part] for part, by in zip(mine, times, strict=True)]
