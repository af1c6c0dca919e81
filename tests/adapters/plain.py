"""What the adapters are held against: lists and bytes, no tensors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

ITEMSIZE = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "complex64": 8,
    "complex128": 16,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "bool": 1,
}
# Groups inside of a pool of five; most of them do not start at rank 0.
GROUPS = [(0,), (4,), (0, 1), (3, 4), (1, 2, 3), (1, 2, 3, 4)]


def random_bytes(shape: tuple[int, ...], dtype: str, seed: int) -> bytes:
    """Any bit patterns, NaN payloads among them; a bool is 0 or 1."""
    raw = random.Random(f"{seed}{dtype}{shape}").randbytes(prod(shape) * ITEMSIZE[dtype])
    return bytes(byte & 1 for byte in raw) if dtype == "bool" else raw


def chunk_elements(shape: tuple[int, ...], dim: int, world_size: int, rank: int) -> list[int]:
    """The row-major indices of the rank's chunk along `dim`, in row-major order."""
    length = -(-shape[dim] // world_size)
    inner = prod(shape[dim + 1 :])
    own = range(rank * length, min((rank + 1) * length, shape[dim]))
    return [
        (outer * shape[dim] + position) * inner + rest
        for outer in range(prod(shape[:dim]))
        for position in own
        for rest in range(inner)
    ]


def flat_elements(shape: tuple[int, ...], world_size: int, rank: int) -> list[int | None]:
    """The row-major indices of the rank's equal part of the flat parameter, None where it is padding."""
    numel = prod(shape)
    length = -(-numel // world_size)
    return [at if at < numel else None for at in range(rank * length, (rank + 1) * length)]


def pick(raw: bytes, itemsize: int, elements: Sequence[int | None]) -> bytes:
    """Those elements' bytes, and zeros where there is none."""
    return b"".join(bytes(itemsize) if at is None else raw[at * itemsize : (at + 1) * itemsize] for at in elements)
