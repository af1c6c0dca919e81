"""The session holds what plain cutting says: values, partitions and means of every rank's own data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context, Pool

GROUPS = [(0,), (2,), (0, 1), (1, 2), (0, 1, 2)]
NUMELS = [0, 1, 2, 3, 5, 6]


@pytest.fixture(scope="module")
def three_ranks() -> Iterator[Ranks]:
    ranks = Ranks(Pool(3, preload=("pytest", "shardproof.adapters.deepspeed_zero3")))
    yield ranks
    ranks.close()


def lived(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """Register, look, gather, write, prefetch, reduce: what a rank saw, as lists."""
    import torch

    from shardproof.adapters.deepspeed_zero3 import Session

    ranks, numels = payload["ranks"], payload["numels"]
    if context.rank not in ranks:
        return None, []
    rank, ids = ranks.index(context.rank), [f"p{numel}" for numel in numels]
    session = Session(context.group(ranks), torch.device("cpu"), {})
    fulls = {id: torch.arange(numel, dtype=torch.float32) for id, numel in zip(ids, numels, strict=True)}
    common = {"requires_grad": True, "tied_to": None}
    session.register([SimpleNamespace(id=id, full=full, **common) for id, full in fulls.items()])
    told: dict[str, Any] = {"first available": [session.available(id) for id in ids]}
    told["shards"] = [session.shard(id).tolist() for id in ids]
    told["gathered"] = [session.gather(id).tolist() for id in ids]
    told["then available"] = [session.available(id) for id in ids]
    for id in ids:
        session.update(id, torch.full(session.shard(id).shape, 10.0 + rank))
    together = [id for id in ids if fulls[id].numel()]  # see the known deviation of parameters without elements
    session.prefetch(together)
    told["waited"] = [session.wait(id).tolist() for id in together]
    for id in together:
        session.release(id)
    told["last available"] = [session.available(id) for id in together]
    for reduction in ("sum", "mean"):
        grads = {id: torch.full((numel,), 6.0 * (rank + 1)) for id, numel in zip(ids, numels, strict=True)}
        told[reduction] = [shard.tolist() for shard in session.reduce(grads, reduction).values()]
    return told, []


@pytest.mark.parametrize("ranks", GROUPS, ids=str)
def test_what_a_session_shows(three_ranks: Ranks, ranks: tuple[int, ...]) -> None:
    size = len(ranks)
    values = three_ranks.values(lived, {"ranks": ranks, "numels": NUMELS}, world_size=3, deadline=120)
    for rank, told in enumerate(values[pool_rank] for pool_rank in ranks):
        owned = [plain_part(numel, rank, size) for numel in NUMELS]
        assert told["first available"] == [False] * len(NUMELS)
        assert [len(shard) for shard in told["shards"]] == [-(-numel // size) for numel in NUMELS]
        assert [shard[: len(own)] for shard, own in zip(told["shards"], owned, strict=True)] == owned
        assert told["gathered"] == [list(range(numel)) for numel in NUMELS]
        assert told["then available"] == [True] * len(NUMELS)
        assert told["waited"] == [[10.0 + at // -(-numel // size) for at in range(numel)] for numel in NUMELS if numel]
        assert not any(told["last available"])
        total = 6.0 * sum(range(1, size + 1))
        for reduction, value in (("sum", total), ("mean", total / size)):
            padded = [
                [value] * len(own) + [0.0] * (-(-n // size) - len(own)) for n, own in zip(NUMELS, owned, strict=True)
            ]
            assert told[reduction] == padded


def plain_part(numel: int, rank: int, size: int) -> list[int]:
    """The elements that a rank owns, in lists alone."""
    length = -(-numel // size)
    return list(range(numel))[rank * length : (rank + 1) * length]
