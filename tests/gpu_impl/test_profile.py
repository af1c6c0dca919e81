"""Profile records: one an operation, every key on every record."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

import gpu_impl
from tests.gpu_impl.support import Answer, ramp, registered

KEYS = ["operation", "alloc_mem", "max_mem", "device_time", "wall_time"]


def profiled(context: Any, world_size: int, _blobs: Any) -> Answer:
    """A run of operations, with the memory that each is known to take."""
    session = registered(context, world_size, {"a": ramp(5), "b": ramp(8)})
    session.gather("b")
    with session.profile() as records:
        session.gather("a")
        session.gather("a")
        session.prefetch(["a", "b"])
        session.release("b")
        session.trim()
        session.accumulate({"b": torch.ones(8)})
        session.reduce({"a": torch.ones(5)}, "sum")
        session.norm()
        assert records == []
    session.gather("b")
    small, large = 4 * 2 * 3, 4 * 2 * 4
    assert [(record.operation, record.alloc_mem, record.max_mem) for record in records] == [
        ("gather", small, small),
        ("gather", 0, 0),
        ("prefetch", 0, 0),
        ("release", 0, 0),
        ("trim", -large, 0),
        ("accumulate", large, large),
        ("reduce", small, small),
        ("norm", 0, 0),
    ]
    for record in records:
        assert list(dataclasses.asdict(record)) == KEYS
        assert record.device_time == record.wall_time > 0
    return None, ()


def test_every_operation_leaves_a_whole_record(ranks: Any) -> None:
    ranks.values(profiled, 2, world_size=2)


def test_the_keys_are_fixed() -> None:
    assert [field.name for field in dataclasses.fields(gpu_impl.Record)] == KEYS
