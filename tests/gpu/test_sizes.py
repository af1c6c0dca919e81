from __future__ import annotations

import pytest

from shardproof.ranks import Pool
from tests.gpu.test_costs import measured

# Past 2^31 bytes, past 2^32 bytes and past 2^32 elements; odd, so that the last shard is padded.
SIZES = [("bfloat16", 2**30 + 1), ("bfloat16", 2**31 + 3), ("uint8", 2**32 + 1)]


@pytest.mark.parametrize("ranks", [(0,), (0, 1)], ids=str)
@pytest.mark.parametrize(("dtype", "numel"), SIZES)
def test_counts_and_offsets_are_64_bit(cuda_pool: Pool, dtype: str, numel: int, ranks: tuple[int, ...]) -> None:
    assert all(measured(cuda_pool, "large", ranks, dtype=dtype, numel=numel))
