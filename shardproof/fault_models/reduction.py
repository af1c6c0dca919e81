"""Faults in reductions and norms (rows N1 to N9), and a correct bucketed variant that some are planted in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.distributed as dist

from shardproof.fault_models.base import Correct, Entry


@dataclass(slots=True)
class Packed:
    """One gradient in a bucket: where its elements are put, and where they are looked for."""

    id: str
    total: torch.Tensor
    put: int
    read: int


class Bucketed(Correct):
    """Correct: gradients of one dtype are reduced together in buckets of a few elements."""

    class Session(Correct.Session):
        """`filled` counts the elements that an open bucket holds, `counters` what one reduction packed."""

        capacity: ClassVar[int] = 12

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """The bucket is empty."""
            super().__init__(group, device, layout)
            self.bucket: list[Packed] = []
            self.filled = self.read_from = 0
            self.counters = {"bucket_elements": 0}

        def reduce_all(self, totals: Mapping[str, torch.Tensor], reduction: str) -> dict[str, torch.Tensor]:
            """Fill buckets and reduce each when the next gradient does not fit."""
            self.start()
            shards: dict[str, torch.Tensor] = {}
            for id, total in totals.items():
                if self.bucket and not self.has_room(self.entries[id], total):
                    shards |= self.flush(reduction)
                self.pack(self.entries[id], id, total)
            return shards | self.flush(reduction)

        def start(self) -> None:
            """A reduction begins."""
            self.counters = {"bucket_elements": 0}

        def room(self, entry: Entry) -> int:
            """W * p elements."""
            return self.world_size * self.stored(entry.numel)

        def has_room(self, entry: Entry, total: torch.Tensor) -> bool:
            """Whether the gradient can join the open bucket."""
            first = self.bucket[0]
            alike = self.dtype(first.id, first.total) == self.dtype(entry.id, total)
            return alike and self.filled + self.room(entry) <= self.capacity

        def dtype(self, id: str, total: torch.Tensor) -> torch.dtype:
            """What a gradient is sent in."""
            return self.entries[id].comm_dtype or total.dtype

        def pack(self, entry: Entry, id: str, total: torch.Tensor) -> None:
            """Into the open bucket; one that is larger than a bucket gets one of its own."""
            self.bucket.append(Packed(id, total, self.filled, self.read_from))
            self.filled += self.put_stride(entry)
            self.read_from += self.read_stride(entry)
            self.counters["bucket_elements"] += self.room(entry)

        def put_stride(self, entry: Entry) -> int:
            """How far apart gradients are put."""
            return self.room(entry)

        def read_stride(self, entry: Entry) -> int:
            """How far apart they are looked for."""
            return self.room(entry)

        def flush(self, reduction: str) -> dict[str, torch.Tensor]:
            """Reduce the open bucket and cut every gradient's shard out of it."""
            if not self.bucket:
                return {}
            flat = self.fill()
            if flat.numel():
                dist.all_reduce(flat, group=self.group)
            shards = {}
            for packed in self.bucket:
                shard = self.cut(self.entries[packed.id], flat[packed.read :])
                shards[packed.id] = self.finish(shard, reduction, packed.total.dtype)
            self.bucket, self.read_from = [], 0
            self.emptied()
            return shards

        def emptied(self) -> None:
            """The next gradient is the first."""
            self.filled = 0

        def fill(self) -> torch.Tensor:
            """The bucket's contents, long enough for its last gradient wherever that is."""
            rooms = [self.room(self.entries[packed.id]) for packed in self.bucket]
            numel = max(max(p.put, p.read) + room for p, room in zip(self.bucket, rooms, strict=True))
            first = self.bucket[0]
            flat = torch.zeros(numel, dtype=self.dtype(first.id, first.total), device=self.device)
            for packed in self.bucket:
                flat[packed.put : packed.put + packed.total.numel()] = packed.total.reshape(-1)
            return flat


class PackedByNumel(Bucketed):
    """N1: gradients are packed N apart but cut W * p long, so a padding slot holds the next gradient's start."""

    class Session(Bucketed.Session):
        """Right where nothing is padded."""

        def put_stride(self, entry: Entry) -> int:
            """Without the padding."""
            return entry.numel

        def read_stride(self, entry: Entry) -> int:
            """Without the padding."""
            return entry.numel


class PackedAndCutApart(Bucketed):
    """N1: gradients are packed N apart and looked for W * p apart."""

    class Session(Bucketed.Session):
        """Right where nothing is padded."""

        def put_stride(self, entry: Entry) -> int:
            """Without the padding."""
            return entry.numel


class PaddingLeft(Correct):
    """N1: the padding of what is sent is never written, and arrives as it was."""

    class Session(Correct.Session):
        """Right where nothing is padded."""

        def pad(self, entry: Entry, total: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            """Fresh memory past the end."""
            padded = torch.empty(self.world_size * self.stored(entry.numel), dtype=dtype, device=self.device)
            padded[: entry.numel] = total.reshape(-1)
            return padded


class PaddingInNorm(PaddingLeft):
    """N2: padding is cleared in what is returned, but takes part in the norm."""

    class Session(PaddingLeft.Session):
        """The norm looks at whole shards."""

        def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
            """Clear copies."""
            cleared = {id: shard.clone() for id, shard in super().reduce(grads, reduction).items()}
            for id, shard in cleared.items():
                shard[self.owned(self.entries[id]) :] = 0
            return cleared

        def squares(self, entry: Entry, shard: torch.Tensor) -> torch.Tensor:  # noqa: ARG002  # the fault is not to ask
            """Of all that is stored."""
            return shard.double().square().sum()


class NormByMax(Correct):
    """N3: squares are scaled by the largest element, which an empty shard does not have."""

    class Session(Correct.Session):
        """Right where every rank owns something."""

        def squares(self, entry: Entry, shard: torch.Tensor) -> torch.Tensor:
            """Scaled and back."""
            owned = shard[: self.owned(entry)].double()
            largest = owned.abs().max().clamp(min=1)
            exponent = largest.log2().ceil()
            return (owned * 2.0**-exponent).square().sum() * 4.0**exponent


class NormByMean(Correct):
    """N3: squares are averaged first, and the mean of an empty shard is NaN."""

    class Session(Correct.Session):
        """Right where every rank owns something."""

        def squares(self, entry: Entry, shard: torch.Tensor) -> torch.Tensor:
            """NaN where nothing is owned."""
            squares = super().squares(entry, shard)
            return squares if self.owned(entry) else shard[:0].double().mean()


class TiedTwice(Correct):
    """N4: a tied parameter's hook fires once a name, and it is reduced as often."""

    class Session(Correct.Session):
        """Right for parameters with one name."""

        def add_up(self, entry: Entry, padded: torch.Tensor) -> None:
            """Once a name."""
            for _ in entry.names:
                super().add_up(entry, padded)


class OversizeLost(Bucketed):
    """N5: a gradient larger than the bucket is never reduced."""

    class Session(Bucketed.Session):
        """Right for gradients that fit."""

        def fill(self) -> torch.Tensor:
            """No more than the capacity is filled."""
            flat = super().fill()
            flat[self.capacity :] = 0
            return flat


class OversizeLocal(Correct):
    """N5: a gradient larger than a bucket of eight elements stays as this rank computed it."""

    class Session(Correct.Session):
        """Right for gradients that fit."""

        def add_up(self, entry: Entry, padded: torch.Tensor) -> None:
            """The larger ones are passed over."""
            if entry.numel <= 8:
                super().add_up(entry, padded)


class CountNotReset(Bucketed):
    """N6: the count of elements in the bucket is carried into the next reduction."""

    class Session(Bucketed.Session):
        """Right for the first reduction."""

        def start(self) -> None:
            """Go on counting."""


class FillNotReset(Bucketed):
    """N6: an emptied bucket goes on where it was filled to, and its gradients are looked for at its start."""

    class Session(Bucketed.Session):
        """Right for the first bucket."""

        def emptied(self) -> None:
            """Stays filled."""


class GradientsAddUp(Correct):
    """N6: what was reduced last time is still there when the next reduction starts."""

    class Session(Correct.Session):
        """Right for the first reduction."""

        def total(self, entry: Entry, grad: torch.Tensor) -> torch.Tensor:
            """Pending gradients stay pending, this one among them."""
            entry.pending = grad.clone() if entry.pending is None else entry.pending + grad
            return entry.pending


class ResultInParameterDtype(Correct):
    """N7: a reduced gradient comes back in the parameter's dtype."""

    class Session(Correct.Session):
        """Right where the two agree."""

        def reduce_one(self, entry: Entry, total: torch.Tensor, reduction: str) -> torch.Tensor:
            """Converted."""
            return super().reduce_one(entry, total, reduction).to(entry.dtype)


class ResultInCommDtype(Correct):
    """N7: a reduced gradient comes back in the dtype that it was sent in."""

    class Session(Correct.Session):
        """Right where none is set."""

        def reduce_one(self, entry: Entry, total: torch.Tensor, reduction: str) -> torch.Tensor:
            """Not converted back."""
            return super().reduce_one(entry, total, reduction).to(entry.comm_dtype or total.dtype)


class FirstMicroStepOnly(Correct):
    """N8: only the first gradient after a reduction counts."""

    class Session(Correct.Session):
        """Right without accumulation."""

        def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
            """Where nothing is there yet."""
            super().accumulate({id: grad for id, grad in grads.items() if self.entries[id].pending is None})

        def total(self, entry: Entry, grad: torch.Tensor) -> torch.Tensor:
            """The first one."""
            pending, entry.pending = entry.pending, None
            return grad if pending is None else pending


class LastMicroStepOnly(Correct):
    """N8: accumulated gradients are dropped."""

    class Session(Correct.Session):
        """Right without accumulation."""

        def total(self, entry: Entry, grad: torch.Tensor) -> torch.Tensor:
            """The last one."""
            super().total(entry, grad)
            return grad


class MiddleMicroStepLost(Correct):
    """N8: each accumulated gradient replaces the one before."""

    class Session(Correct.Session):
        """Right for two micro-steps."""

        def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
            """Replace."""
            for id, grad in grads.items():
                self.entries[id].pending = grad.clone()


class ReducedInPlace(Correct):
    """N9: where nothing is padded the caller's own gradient is added up in place."""

    class Session(Correct.Session):
        """Right where a padded copy is needed."""

        def pad(self, entry: Entry, total: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            """A view where it is long enough."""
            if total.numel() == self.world_size * self.stored(entry.numel):
                return total.reshape(-1).to(dtype)
            return super().pad(entry, total, dtype)


class AccumulatedInPlace(Correct):
    """N9: the first gradient is kept, not copied, and the next ones are added to the caller's memory."""

    class Session(Correct.Session):
        """Right without accumulation."""

        def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
            """In place."""
            for id, grad in grads.items():
                entry = self.entries[id]
                entry.pending = grad if entry.pending is None else grad.add_(entry.pending)


class SumForMean(Correct):
    """Lesson: a mean is not divided, which equal ranks do not hide but an ignored reduction does."""

    class Session(Correct.Session):
        """Right for sums."""

        def finish(self, shard: torch.Tensor, reduction: str, dtype: torch.dtype) -> torch.Tensor:  # noqa: ARG002  # the fault
            """Always a sum."""
            return super().finish(shard, "sum", dtype)


class MeanForSum(Correct):
    """Lesson: a sum is divided."""

    class Session(Correct.Session):
        """Right for means."""

        def finish(self, shard: torch.Tensor, reduction: str, dtype: torch.dtype) -> torch.Tensor:  # noqa: ARG002  # the fault
            """Always a mean."""
            return super().finish(shard, "mean", dtype)


class OwnRankOnly(Correct):
    """Lesson: gradients are not added up over ranks, which ranks with equal data and a mean would hide."""

    class Session(Correct.Session):
        """Right for one rank."""

        def add_up(self, entry: Entry, padded: torch.Tensor) -> None:
            """This rank's own, as often as there are ranks."""
            del entry
            padded.mul_(self.world_size)
