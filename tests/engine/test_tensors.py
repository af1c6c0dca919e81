"""Bytes of tensors, however their elements lie."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
import torch

from shardproof import standalone
from shardproof.rank_side.tensors import guarded, raw_bytes

FOUR = torch.arange(4, dtype=torch.float32)
TENSORS: dict[str, tuple[torch.Tensor, list[float]]] = {
    "packed": (FOUR, [0, 1, 2, 3]),
    "transposed": (FOUR.view(2, 2).T, [0, 2, 1, 3]),
    "every other": (FOUR[::2], [0, 2]),
    "one of every other": (FOUR[1::4], [1]),
    "one, its stride kept by a clone": (FOUR[2::4].clone(), [2]),
    "one, in two dimensions": (FOUR.view(2, 2)[1:, 1:], [3]),
    "expanded": (FOUR[3].expand(2), [3, 3]),
    "scalar": (FOUR[3], [3]),
    "empty": (FOUR[:0], []),
    "negated lazily": (torch.complex(FOUR, FOUR).conj().imag, [-0.0, -1, -2, -3]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_raw_bytes(name: str) -> None:
    tensor, expected = TENSORS[name]
    assert raw_bytes(tensor) == struct.pack(f"{len(expected)}f", *expected)


@pytest.mark.parametrize("name", [name for name in TENSORS if name != "negated lazily"])
@pytest.mark.parametrize("function", [standalone.raw])
def test_a_script_reads_the_same(name: str, function: Callable[[torch.Tensor], bytes]) -> None:
    assert function(TENSORS[name][0]) == raw_bytes(TENSORS[name][0])


def test_memory_that_was_given_back_is_not_read() -> None:
    tensor = torch.arange(4.0)
    tensor.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError):
        raw_bytes(tensor)


@pytest.mark.parametrize("strides", [None, (1, 2), (7, 2)])
def test_a_guarded_tensor_holds_its_bits(strides: tuple[int, ...] | None) -> None:
    bits = np.arange(4, dtype=np.uint32)
    held = guarded(bits.tobytes(), (2, 2), torch.float32, torch.device("cpu"), strides=strides, storage_offset=1)
    assert raw_bytes(held.tensor) == bits.tobytes()
    assert held.changes() == (False, False)
    held.tensor[0, 0] = 9
    assert held.changes() == (True, False)
    held.block[-1] = 0
    assert held.changes() == (False, True)
