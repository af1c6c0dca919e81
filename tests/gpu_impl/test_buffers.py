"""The pool: what matches, what is kept, what is given up, and that held memory is never handed out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.dlpack import from_dlpack

from gpu_impl.buffers import Buffer, Key, Pool
from gpu_impl.streams import ProgramOrder

CPU = torch.device("cpu")
KEY: Key = (8, torch.float32, CPU)

# Keys that must not share a buffer with KEY: another length, another dtype of the same size, another size.
OTHER_KEYS: list[Key] = [(7, torch.float32, CPU), (8, torch.int32, CPU), (8, torch.bfloat16, CPU)]

# Ways to hold the memory of a tensor.
HOLDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "the view": lambda view: view,
    "a view of the view": lambda view: view.t(),
    "a detached view": torch.Tensor.detach,
    "a NumPy array": lambda view: view.numpy(),
    "a DLPack import": from_dlpack,
    "the storage": lambda view: view.untyped_storage(),
    "a parameter": torch.nn.Parameter,
    "a graph": lambda view: (view * torch.ones(3, requires_grad=True)).sum(),
}


def pool(limit: int = 1 << 20) -> Pool:
    return Pool(ProgramOrder(), limit)


def view(buffer: Buffer) -> torch.Tensor:
    return buffer.memory.as_strided((2, 3), (3, 1))


def test_a_released_buffer_serves_again() -> None:
    books = pool()
    first = books.take(KEY)
    assert (books.live_bytes, books.idle_bytes) == (32, 0)
    books.give(first)
    assert (books.live_bytes, books.idle_bytes) == (0, 32)
    assert books.take(KEY) is first
    assert (books.live_bytes, books.idle_bytes, books.peak_bytes) == (32, 0, 32)


@pytest.mark.parametrize("key", OTHER_KEYS)
def test_only_length_dtype_and_device_together_match(key: Key) -> None:
    books = pool()
    books.give(books.take(KEY))
    assert books.take(key).key == key
    assert books.idle_bytes == 32


@pytest.mark.parametrize("hold", [pytest.param(hold, id=name) for name, hold in HOLDS.items()])
def test_held_memory_is_dropped_from_the_books_and_lives_on(hold: Callable[[torch.Tensor], Any]) -> None:
    books = pool()
    buffer = books.take(KEY)
    buffer.memory.fill_(3.0)
    held = hold(view(buffer))
    assert buffer.held()
    books.give(buffer)
    assert (books.live_bytes, books.idle_bytes) == (0, 0)
    del buffer
    books.take(KEY).memory.fill_(4.0)
    assert 4.0 not in torch.tensor(held.tolist() if hasattr(held, "tolist") else [0.0])


@pytest.mark.parametrize("hold", [pytest.param(hold, id=name) for name, hold in HOLDS.items()])
def test_what_was_held_and_let_go_serves_again(hold: Callable[[torch.Tensor], Any]) -> None:
    books = pool()
    buffer = books.take(KEY)
    held = hold(view(buffer))
    del held
    assert not buffer.held()
    books.give(buffer)
    assert books.take(KEY) is buffer


def test_writing_through_the_collective_side_is_not_holding() -> None:
    buffer = pool().take(KEY)
    chunks = list(buffer.receive.chunk(2))  # as a backend's worker thread may keep for a moment
    chunks[1].fill_(7.0)
    assert not buffer.held()
    assert buffer.memory[4:].tolist() == [7.0] * 4


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float8_e4m3fn, torch.complex128, torch.float64])
def test_both_sides_are_the_same_bytes(dtype: torch.dtype) -> None:
    buffer = pool().take((6, dtype, CPU))
    assert buffer.receive.data_ptr() == buffer.memory.data_ptr()
    assert buffer.receive.nbytes == buffer.memory.nbytes == 6 * dtype.itemsize


def test_empty_buffers_work() -> None:
    books = pool()
    books.give(books.take((0, torch.float32, CPU)))
    assert books.take((0, torch.float32, CPU)).memory.numel() == 0


def test_the_longest_unused_is_given_up_first() -> None:
    books = pool(limit=96)
    keys: list[Key] = [(8, torch.float32, CPU), (6, torch.float32, CPU), (10, torch.float32, CPU)]
    taken = [books.take(key) for key in keys]
    for buffer in taken:
        books.give(buffer)
    assert books.idle_bytes == 96
    again = books.take(keys[0])
    books.give(again)  # used now: given up last
    books.give(books.take((1, torch.float32, CPU)))
    assert books.idle_bytes == 96 - 24 + 4
    assert books.take(keys[0]) is again
    assert books.take(keys[1]) is not taken[1]
    assert books.take(keys[2]) is taken[2]


def test_what_is_larger_than_the_limit_is_not_kept() -> None:
    books = pool(limit=31)
    small = books.take((1, torch.float32, CPU))
    books.give(small)
    books.give(books.take(KEY))
    assert books.idle_bytes == 4
    assert books.take(small.key) is small


def test_clear_gives_all_up() -> None:
    books = pool()
    given_back = [books.take(KEY), books.take(OTHER_KEYS[0])]
    for buffer in given_back:
        books.give(buffer)
    books.clear()
    assert books.idle_bytes == 0
    assert books.take(KEY) not in given_back


def test_inference_mode_makes_ordinary_buffers() -> None:
    with torch.inference_mode():
        buffer = pool().take(KEY)
    buffer.memory.zero_()
    assert not buffer.memory.is_inference()
