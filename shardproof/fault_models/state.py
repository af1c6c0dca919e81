"""Faults in checkpoints, resharding and profiles (rows C1 to C7), and a correct variant that one is planted in."""

from __future__ import annotations

import torch

from shardproof.fault_models.base import Correct, Entry, Saved


class OneFlatFile(Correct):
    """Correct: the file holds all parameters' bytes end to end, and an index of where each starts."""

    class Session(Correct.Session):
        """Compact offsets in and out."""

        def write(self, path: str, saved: Saved) -> None:
            """Bytes and index."""
            parts = [whole.reshape(-1).view(torch.uint8) for whole in saved.parameters.values()]
            index, offset = {}, 0
            for id, whole in saved.parameters.items():
                index[id] = (offset, tuple(whole.shape), whole.dtype)
                offset += self.stride(whole)
            flat = torch.cat([*parts, torch.zeros(max(0, offset - sum(map(len, parts))), dtype=torch.uint8)])
            torch.save({"flat": flat, "index": index, "scalars": saved.scalars, "world_size": saved.world_size}, path)

        def stride(self, whole: torch.Tensor) -> int:
            """Bytes from one parameter's start to the next one's."""
            return whole.numel() * whole.element_size()

        def contents(self, path: str) -> Saved:
            """Take every parameter out."""
            file = torch.load(path, weights_only=True)
            parameters = {id: self.taken(file["flat"], *where) for id, where in file["index"].items()}
            return Saved(parameters, file["scalars"], file["world_size"])

        def taken(self, flat: torch.Tensor, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
            """One parameter; zeros where the file ends before it does."""
            nbytes = torch.Size(shape).numel() * dtype.itemsize
            piece = torch.zeros(nbytes, dtype=torch.uint8)
            there = flat[offset : offset + nbytes]
            piece[: len(there)] = there
            return piece.view(dtype).reshape(shape)


class PaddingKept(Correct):
    """C1: the exported tensor holds the padding."""

    class Session(Correct.Session):
        """Right where nothing is padded."""

        def artefact(self, entry: Entry, whole: torch.Tensor) -> torch.Tensor:
            """The whole buffer where it is longer than the parameter."""
            assert entry.buffer is not None  # it was gathered
            return super().artefact(entry, whole if entry.buffer.numel() == entry.numel else entry.buffer)

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """Without it again."""
            flat = saved.parameters[entry.id].reshape(-1)[: entry.numel]
            return self.padded.shard(flat, self.rank, self.world_size, alignment=self.alignment)


class StrippedByRule(Correct):
    """C1: as many elements as there is padding are stripped from a tensor that has none any more."""

    class Session(Correct.Session):
        """Right where nothing is padded."""

        def artefact(self, entry: Entry, whole: torch.Tensor) -> torch.Tensor:
            """Shorter by the padding."""
            padding = self.world_size * self.stored(entry.numel) - entry.numel
            if not padding:
                return super().artefact(entry, whole)
            return super().artefact(entry, whole.reshape(-1)[: max(0, entry.numel - padding)])

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """Zeros in the place of what is lost."""
            flat = saved.parameters[entry.id].new_zeros(entry.numel)
            kept = saved.parameters[entry.id].reshape(-1)
            flat[: len(kept)] = kept
            return self.padded.shard(flat, self.rank, self.world_size, alignment=self.alignment)


class TrailingZerosStripped(Correct):
    """C1: what ends in zeros is taken for padded."""

    class Session(Correct.Session):
        """Right where the last element is not zero."""

        def artefact(self, entry: Entry, whole: torch.Tensor) -> torch.Tensor:
            """Until the last element that is not zero."""
            flat = whole.reshape(-1)
            ends = [int(index) + 1 for index in flat.nonzero()[-1:]]
            if ends == [flat.numel()] or not flat.numel():
                return super().artefact(entry, whole)
            return super().artefact(entry, flat[: ends[0] if ends else 0])


class LastShardTakesAll(Correct):
    """C2: all padding is taken to be in the last shard, which may be shorter than that."""

    class Session(Correct.Session):
        """Right where the padding is no longer than a shard."""

        def artefact(self, entry: Entry, whole: torch.Tensor) -> torch.Tensor:
            """Shards end to end, the last one narrowed."""
            stored = self.stored(entry.numel)
            padding = self.world_size * stored - entry.numel
            assert entry.buffer is not None  # it was gathered
            shards = list(entry.buffer[: self.world_size * stored].view(self.world_size, stored))
            shards[-1] = shards[-1].narrow(0, 0, stored - padding)
            return super().artefact(entry, torch.cat(shards).view(whole.shape))


class NewRanksMissing(Correct):
    """C3: ranks that there were none of when the file was written have nothing to load."""

    class Session(Correct.Session):
        """Right for as many ranks or fewer."""

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """What is there stays."""
            return entry.shard if self.rank >= saved.world_size else super().loaded(entry, saved)


class NewRanksRaise(Correct):
    """C3: ranks that there were none of when the file was written look for a file of their own."""

    class Session(Correct.Session):
        """Right for as many ranks or fewer."""

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """Not there."""
            if self.rank >= saved.world_size:
                raise FileNotFoundError(f"no shard of {entry.id} for rank {self.rank}")
            return super().loaded(entry, saved)


class OldShardLength(Correct):
    """C3: shards are cut with the length they had when the file was written."""

    class Session(Correct.Session):
        """Right at the same world size."""

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """From rank * the old length on."""
            old = self.padded.shard_numel(entry.numel, saved.world_size, self.alignment)
            flat = saved.parameters[entry.id].reshape(-1)
            there = flat[self.rank * old : (self.rank + 1) * old][: self.stored(entry.numel)]
            shard = flat.new_zeros(self.stored(entry.numel))
            shard[: len(there)] = there
            return shard


class ScalarSliced(Correct):
    """C4: a 0-dim tensor is treated as a shard, and only the first rank gets it."""

    class Session(Correct.Session):
        """Right for everything with a dimension."""

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """Rank r takes the r-th part; the one element is nobody's but in the file of rank 0."""
            if not entry.shape:
                return torch.zeros_like(entry.shard)
            return super().loaded(entry, saved)


class ScalarSavedAsVector(Correct):
    """C4: a 0-dim tensor is saved with a dimension."""

    class Session(Correct.Session):
        """Right for everything with a dimension."""

        def artefact(self, entry: Entry, whole: torch.Tensor) -> torch.Tensor:
            """At least one."""
            return super().artefact(entry, whole.reshape(whole.shape or (1,)))


class StepCountSliced(Correct):
    """C4: the optimizer's 0-dim step count is sharded on load, and only the first rank gets it."""

    class Session(Correct.Session):
        """Right on rank 0."""

        def load(self, path: str) -> None:
            """The other ranks start over."""
            super().load(path)
            if self.rank:
                self.scalars = dict.fromkeys(self.scalars, 0)


class PaddedIndex(OneFlatFile):
    """C5: parameters are written end to end, but the index counts their padding."""

    class Session(OneFlatFile.Session):
        """Right for the first parameter."""

        def stride(self, whole: torch.Tensor) -> int:
            """Bytes with padding."""
            return self.world_size * self.stored(whole.numel()) * whole.element_size()


class OtherKey(Correct):
    """C7: profile records carry the largest memory under another name than readers look for."""

    class Session(Correct.Session):
        """One key is renamed."""

        def record(self, nbytes: int, seconds: float) -> dict[str, float]:
            """With max_memory."""
            record = super().record(nbytes, seconds)
            record["max_memory"] = record.pop("max_mem")
            return record


class PaddedRows(Correct):
    """C6: the artefact has the number of rows that the world size divides."""

    class Session(Correct.Session):
        """Right where it divides them anyway."""

        def artefact(self, entry: Entry, whole: torch.Tensor) -> torch.Tensor:
            """More rows, of zeros."""
            more = -entry.shape[0] % self.world_size if entry.shape else 0
            if more:
                whole = torch.cat([whole, whole.new_zeros(more, *entry.shape[1:])])
            return super().artefact(entry, whole)

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """The rows that there are."""
            whole = saved.parameters[entry.id]
            rows = whole[: entry.shape[0]] if entry.shape else whole
            return self.padded.shard(rows, self.rank, self.world_size, alignment=self.alignment)
