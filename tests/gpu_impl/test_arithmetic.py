"""The cut: against tables, against torch.chunk of the padded flattened whole, and at numels nobody can store."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gpu_impl
from tests.gpu_impl.support import MOVED, bits, chunked, raw

HUGE = 1 << 62
THIRD = (HUGE + 2) // 3

# shape, rank, world size, alignment -> shard numel, and start and length of what the rank owns (None: padding only)
LAYOUTS = [
    ((), 0, 1, 1, 1, (0, 1)),
    ((), 1, 2, 1, 1, None),
    ((0,), 0, 3, 4, 0, None),
    ((1, 0, 2), 1, 2, 1, 0, None),
    ((5,), 0, 2, 1, 3, (0, 3)),
    ((5,), 1, 2, 1, 3, (3, 2)),
    ((1,), 3, 4, 1, 1, None),
    ((2, 3), 1, 4, 1, 2, (2, 2)),
    ((2, 3), 3, 4, 1, 2, None),
    ((10,), 1, 3, 4, 4, (4, 4)),
    ((10,), 2, 3, 4, 4, (8, 2)),
    ((HUGE,), 2, 3, 1, THIRD, (2 * THIRD, HUGE - 2 * THIRD)),
    ((1 << 31, 1 << 31), 0, 2, 384, (1 << 61) + 256, (0, (1 << 61) + 256)),
]

# What is asked, and what the error says.
WRONG = [
    (((3,), 0, 0), "world size is 0"),
    (((3,), -1, 2), "rank is -1, expected 0 to 1"),
    (((3,), 2, 2), "rank is 2, expected 0 to 1"),
    (((3,), 0, 2, 0), "alignment is 0"),
    (((3, -1), 0, 2), "shape is (3, -1)"),
]

STRIDED = {
    "starts inside its storage": torch.arange(10.0)[3:],
    "column": torch.arange(4.0).reshape(2, 2)[:, 1],
    "broadcast": torch.arange(3.0).expand(4, 3),
    "transposed": torch.arange(6.0).reshape(2, 3).flip(0).t(),
    "lazily conjugated": torch.complex(torch.arange(4.0), torch.ones(4)).conj(),
}


@pytest.mark.parametrize(("shape", "rank", "world_size", "alignment", "length", "owned"), LAYOUTS)
def test_layout_table(
    shape: tuple[int, ...], rank: int, world_size: int, alignment: int, length: int, owned: tuple[int, int] | None
) -> None:
    found = gpu_impl.layout(shape, rank, world_size, alignment)
    assert found["shard_numel"] == length
    assert found["padded_numel"] == world_size * length
    assert found["logical_shape"] == shape
    assert found["runs"] == ([] if owned is None else [(0, *owned, owned[1], 1)])


@pytest.mark.parametrize(("question", "said"), WRONG)
def test_what_cannot_be_is_refused(question: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        gpu_impl.layout(*question)


@given(
    numel=st.integers(0, HUGE), world_size=st.integers(1, 1 << 20), alignment=st.integers(1, 1 << 12), data=st.data()
)
def test_ranges_tile_the_parameter_at_any_numel(
    numel: int, world_size: int, alignment: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, world_size - 1))
    found = gpu_impl.layout((numel,), rank, world_size, alignment)
    length = found["shard_numel"]
    assert length % alignment == 0
    assert length * world_size >= numel
    assert max(length - alignment, 0) * world_size < max(numel, 1)  # one step less would not do
    start, stop = min(rank * length, numel), min((rank + 1) * length, numel)
    assert [(begin, begin + count) for _, begin, count, _, _ in found["runs"]] == [(start, stop)] * (start < stop)


@settings(deadline=None)
@given(
    shape=st.lists(st.integers(0, 5), max_size=4).map(tuple),
    world_size=st.integers(1, 8),
    alignment=st.integers(1, 5),
    dtype=st.sampled_from(MOVED),
    order=st.randoms(use_true_random=False),
)
def test_shards_are_chunks_of_the_padded_whole(
    shape: tuple[int, ...], world_size: int, alignment: int, dtype: str, order: random.Random
) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)
    full = bits(shape, getattr(torch, dtype)).permute(axes)
    before = raw(full)
    for rank in range(world_size):
        found = gpu_impl.shard(full, rank, world_size, alignment)
        assert found.is_contiguous()
        assert raw(found) == raw(chunked(full, rank, world_size, alignment))
        assert found.numel() == gpu_impl.layout(full.shape, rank, world_size, alignment)["shard_numel"]
        if found.numel():
            assert found.untyped_storage().data_ptr() != full.untyped_storage().data_ptr()
    assert raw(full) == before


@pytest.mark.parametrize("full", [pytest.param(full, id=name) for name, full in STRIDED.items()])
def test_elements_are_taken_in_row_major_order(full: torch.Tensor) -> None:
    for rank in range(3):
        assert torch.equal(gpu_impl.shard(full, rank, 3), chunked(full.clone(), rank, 3))


def test_meta_tensors_are_cut_by_size() -> None:
    found = gpu_impl.shard(torch.empty((128256, 4096), device="meta", dtype=torch.bfloat16), 6, 7)
    assert (found.device.type, found.dtype, found.numel()) == ("meta", torch.bfloat16, -(-128256 * 4096 // 7))


def test_a_shard_cut_under_inference_mode_can_be_written_to_later() -> None:
    with torch.inference_mode():
        found = gpu_impl.shard(torch.arange(3.0), 0, 2)
    found += 1
    assert found.tolist() == [1.0, 2.0]
