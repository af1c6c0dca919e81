"""Faults in shards of a group of ranks, which other groups hold as well (rows L1, C2, C3, G11)."""

from __future__ import annotations

import torch

from shardproof.fault_models.base import Entry, Saved
from shardproof.fault_models.cutting import Grouped


class SecondaryUnclamped(Grouped):
    """L1: a secondary shard that starts past the end owns fewer than no elements."""

    @classmethod
    def owned(cls, numel: int, place: int, stored: int) -> int:
        """Clamped above only."""
        return min(stored, numel - place * stored)


class LastOfGroupTakesAll(Grouped):
    """C2: all padding is taken to be in the group's last shard, which may be shorter than that."""

    class Session(Grouped.Session):
        """Right where the padding is no longer than a shard."""

        def artefact(self, entry: Entry, whole: torch.Tensor) -> torch.Tensor:
            """The group's shards end to end, the last one narrowed."""
            stored = self.part(entry).stored
            padded = whole.new_zeros(self.size * stored)
            padded[: entry.numel] = whole.reshape(-1)
            shards = list(padded.view(self.size, stored))
            shards[-1] = shards[-1].narrow(0, 0, stored - (len(padded) - entry.numel))
            return super().artefact(entry, torch.cat(shards).view(whole.shape))


class WorldRankForGroupRank(Grouped):
    """C3: on load, the rank in the world is taken for the rank in its group."""

    class Session(Grouped.Session):
        """Right in the first group."""

        def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
            """What lies so many shards on: nothing, in every other group."""
            stored = self.part(entry).stored
            flat = saved.parameters[entry.id].reshape(-1)
            there = flat[self.rank * stored : (self.rank + 1) * stored]
            shard = flat.new_zeros(stored)
            shard[: len(there)] = there
            return shard


class SecondaryNotRefreshed(Grouped):
    """G11: an update reaches the first group only; the others go on with the shards that they have."""

    class Session(Grouped.Session):
        """Right in the first group."""

        def update(self, id: str, shard: torch.Tensor) -> None:
            """Keep the old one elsewhere."""
            super().update(id, self.entries[id].shard if self.first else shard)
