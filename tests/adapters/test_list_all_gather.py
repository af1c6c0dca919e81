"""The control: whatever is sharded comes back, in memory of its own."""

from __future__ import annotations

from types import ModuleType

import pytest

from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context
from tests.adapters.plain import GROUPS, ITEMSIZE, random_bytes

SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (2,), (3,), (5, 3), (2, 0, 3), (4, 4), (1, 1, 7)]
Item = tuple[tuple[int, ...], str, int]


def gathered(context: Context, payload: list[list[Item]], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """Each parameter's gathered bytes, looked at when all have been gathered; and shapes and dtypes."""
    import torch

    from shardproof.adapters import list_all_gather

    ranks, items = payload
    if context.rank not in ranks:
        return None, []
    results = []
    for (shape, dtype, _), blob in zip(items, blobs, strict=True):
        full = tensor(torch, bytes(blob), shape, dtype)
        shard = list_all_gather.shard(full, ranks.index(context.rank), len(ranks))
        results.append(list_all_gather.gather(shard, shape, context.group(ranks)))
    said = [[list(result.shape), str(result.dtype)] for result in results]
    return said, [result.reshape(-1).view(torch.uint8).numpy().tobytes() for result in results]


def tensor(torch: ModuleType, raw: bytes, shape: tuple[int, ...], dtype: str) -> object:
    """A tensor of these bytes whose dimensions lie in memory in reverse order."""
    flat = torch.tensor(list(raw), dtype=torch.uint8).view(getattr(torch, dtype)).reshape(shape)
    reverse = tuple(reversed(range(len(shape))))
    return flat.permute(reverse).contiguous().permute(reverse)


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_every_dtype_and_shape_comes_back(five_ranks: Ranks, group: tuple[int, ...]) -> None:
    items = [(shape, dtype, seed) for seed, dtype in enumerate(ITEMSIZE) for shape in SHAPES]
    blobs = [random_bytes(*item) for item in items]
    reports = five_ranks.run(gathered, [group, items], world_size=5, blobs=blobs, deadline=120)
    assert [report.ended for report in reports] == ["done"] * 5, "\n".join(report.story for report in reports)
    for rank in group:
        assert reports[rank].value == [[list(shape), f"torch.{dtype}"] for shape, dtype, _ in items]
        assert [bytes(blob) for blob in reports[rank].blobs] == blobs
