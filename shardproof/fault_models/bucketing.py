"""Faults in buffers of buckets (rows L2 to L4, C5), and a correct variant that one is planted in."""

from __future__ import annotations

import math
from typing import Any

import torch

from shardproof.fault_models.base import Entry, Saved
from shardproof.fault_models.cutting import Bucket, Buckets


class EndNotCarried(Buckets):
    """L2: the next bucket starts where the last one's parameters end, not where its padding does."""

    @classmethod
    def opened(cls, last: Bucket, used: int, **options: Any) -> int:  # noqa: ARG003  # what is forgotten
        """Before the padding."""
        return used


class HoleBetween(Buckets):
    """L2: the next bucket starts where its first parameter does, which its own alignment may have moved."""

    @classmethod
    def opened(cls, last: Bucket, used: int, **options: Any) -> int:  # noqa: ARG003  # one signature for all
        """Behind the gap."""
        return cls.up(last.high, options.get("parameter_alignment", 1))


class FixedBoundary(Buckets):
    """L3: where a bucket's end has an alignment of its own, it is not rounded to the world size."""

    @classmethod
    def end(cls, bucket: Bucket, used: int, world_size: int, **options: Any) -> None:
        """To the one multiple only."""
        own = options.get("bucket_alignment", 1)
        if own == 1:
            super().end(bucket, used, world_size, **options)
        else:
            bucket.high = cls.up(used, own)


class BufferPadded(Buckets):
    """L4: the end of the whole buffer is padded, that of each bucket is not."""

    @classmethod
    def close(cls, bucket: Bucket, used: int, world_size: int, **options: Any) -> None:  # noqa: ARG003  # what is forgotten
        """As it comes."""
        bucket.high = used


class ThroughBuffer(Buckets):
    """Correct: what a file holds is laid into the flat buffer, and taken out of it."""

    class Session(Buckets.Session):
        """By the buffer's own offsets, in and out."""

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """This rank's part of the parameter's place in the buffer."""
            flat = self.flat(entry, saved)
            start = self.start(entry)
            whole = flat.new_zeros(entry.numel)
            there = flat[start : start + entry.numel]
            whole[: len(there)] = there
            return self.cutting.cut(whole, self.part(entry))

        def flat(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """All parameters of the buffer, padding as zeros."""
            buckets = self.cutting.laid_out(self.world_size, **self.options(entry.id))
            flat = torch.zeros(buckets[-1].high, dtype=entry.dtype)
            for bucket in buckets:
                for number, start in bucket.starts.items():
                    whole = saved.parameters[self.together[entry.id][number]].reshape(-1)
                    flat[start : start + len(whole)] = whole
            return flat

        def start(self, entry: Entry) -> int:
            """Where the parameter lies in it."""
            bucket, start = self.bucket(entry)
            return bucket.low + start


class CompactOffsets(ThroughBuffer):
    """C5: parameters are looked for where they would lie without padding."""

    class Session(ThroughBuffer.Session):
        """Right up to the first padding."""

        def start(self, entry: Entry) -> int:
            """Behind the elements of those before it."""
            options = self.options(entry.id)
            return sum(math.prod(shape) for shape in options["shapes"][: options["index"]])
