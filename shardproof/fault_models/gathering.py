"""Faults in gathering, its buffers and its views (rows G1 to G16), and correct variants that they are planted in."""

from __future__ import annotations

import math
import signal
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from shardproof.fault_models.base import Correct, Entry

# Correct variants: more machinery, no mistake. Like the base they must never be accused.


class Pooled(Correct):
    """Correct: released buffers are used again."""

    class Session(Correct.Session):
        """Keeps buffers by padded length and dtype."""

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """No buffer is spare yet."""
            super().__init__(group, device, layout)
            self.spare: dict[Hashable, list[torch.Tensor]] = {}

        def key(self, entry: Entry) -> Hashable:
            """What a buffer must have in common with what it is used for."""
            return self.world_size * entry.shard.numel(), entry.dtype

        def buffer(self, entry: Entry) -> torch.Tensor:
            """A spare one where there is one."""
            spare = self.spare.get(self.key(entry))
            return spare.pop() if spare else super().buffer(entry)

        def release(self, id: str) -> None:
            """Keep the buffer. Another name of the parameter may still have a view, so tied ones are given up."""
            entry = self.entries[id]
            self.complete(entry)
            if entry.buffer is not None and len(entry.names) == 1:
                self.spare.setdefault(self.key(entry), []).append(entry.buffer)
            super().release(id)

        def trim(self) -> None:
            """Keep none."""
            self.spare.clear()


@dataclass(slots=True)
class Landing:
    """A gather under way into staging memory; waiting for it also moves what arrived to where it belongs."""

    work: Any
    arrived: Sequence[torch.Tensor]
    pieces: Sequence[torch.Tensor]

    def wait(self) -> None:
        """Complete on return."""
        self.work.wait()
        for piece, arrived in zip(self.pieces, self.arrived, strict=True):
            piece.copy_(arrived)


class Staged(Correct):
    """Correct: shards arrive in staging memory and are copied from there."""

    class Session(Correct.Session):
        """One staging tensor a rank."""

        def communicate(self, pieces: list[torch.Tensor], sent: torch.Tensor) -> Any:
            """Gather elsewhere first."""
            arrived = self.staging(sent)
            return Landing(super().communicate(arrived, sent), arrived, pieces)

        def staging(self, sent: torch.Tensor) -> list[torch.Tensor]:
            """Where each rank's shard arrives."""
            return [torch.empty_like(sent) for _ in range(self.world_size)]


class PingPong(Staged):
    """Correct: two staging buffers are used in turn; what is under way in one is completed before it is used again."""

    class Session(Staged.Session):
        """The next buffer, how many gathers were launched, and which of them are under way."""

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """Both buffers are empty."""
            super().__init__(group, device, layout)
            self.slots = [torch.empty(0, dtype=torch.uint8, device=device) for _ in range(2)]
            self.next = self.launches = 0
            self.flying: dict[int, Entry] = {}

        def launch(self, entry: Entry) -> None:
            """Make room, then start."""
            self.make_room()
            super().launch(entry)
            self.flying[self.launches] = entry
            self.launches += 1

        def make_room(self) -> None:
            """The launch before the last one used the buffer that is next."""
            for number, entry in list(self.flying.items()):
                if number <= self.launches - 2:
                    self.complete(entry)

        def complete(self, entry: Entry) -> None:
            """Not under way any more. Like on a stream, all that was started has arrived then."""
            for other in self.flying.values():
                other.work.work.wait()
            super().complete(entry)
            self.flying = {number: other for number, other in self.flying.items() if other is not entry}

        def staging(self, sent: torch.Tensor) -> list[torch.Tensor]:
            """The next buffer, made larger where it is too small."""
            nbytes = self.world_size * sent.numel() * sent.element_size()
            if self.slots[self.next].numel() < nbytes:
                self.slots[self.next] = torch.empty(nbytes, dtype=torch.uint8, device=self.device)
            slot = self.slots[self.next][:nbytes].view(sent.dtype)
            self.next = 1 - self.next
            return list(slot.view(self.world_size, sent.numel()))


class Fused(Correct):
    """Correct: parameters that are prefetched together and have one dtype share one buffer until they are complete."""

    class Session(Correct.Session):
        """`regions` is where parameters arrive, `readings` where they are read from."""

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """Nothing is under way."""
            super().__init__(group, device, layout)
            self.regions: dict[str, torch.Tensor] = {}
            self.readings: dict[str, torch.Tensor] = {}

        def prefetch(self, ids: Sequence[str]) -> None:
            """Lay out one buffer a dtype first."""
            waiting = {self.entries[id].id: self.entries[id] for id in ids}.values()
            fresh = [entry for entry in waiting if not entry.valid and entry.work is None]
            for dtype in dict.fromkeys(entry.dtype for entry in fresh):
                self.lay_out([entry for entry in fresh if entry.dtype == dtype])
            super().prefetch(ids)

        def lay_out(self, entries: Sequence[Entry]) -> None:
            """One after the other."""
            rooms = [self.world_size * entry.shard.numel() for entry in entries]
            fused = torch.empty(sum(rooms), dtype=entries[0].dtype, device=self.device)
            arrives = starts = 0
            for entry, room in zip(entries, rooms, strict=True):
                self.regions[entry.id], self.readings[entry.id] = fused[arrives : arrives + room], fused[starts:]
                arrives, starts = arrives + room, starts + self.stride(entry)

        def stride(self, entry: Entry) -> int:
            """How far the next parameter is from this one's start when it is read."""
            return self.world_size * entry.shard.numel()

        def buffer(self, entry: Entry) -> torch.Tensor:
            """Its part of the shared buffer, if it was prefetched."""
            region = self.regions.pop(entry.id, None)
            return super().buffer(entry) if region is None else region

        def complete(self, entry: Entry) -> None:
            """Take the parameter out of the shared buffer."""
            super().complete(entry)
            reading = self.readings.pop(entry.id, None)
            if reading is not None:
                entry.buffer = reading[: entry.numel].clone()


# Faults.


class BufferOfN(Correct):
    """G1: the buffer holds N elements instead of W * p, and the last ranks' shards do not fit."""

    class Session(Correct.Session):
        """Right where N is a multiple of W."""

        def buffer(self, entry: Entry) -> torch.Tensor:
            """Too short by the padding."""
            return torch.empty(entry.numel, dtype=entry.dtype, device=self.device)


class TailPushedBack(BufferOfN):
    """G1: in a buffer of N elements the last shards are pushed back until they fit, over what is there."""

    class Session(BufferOfN.Session):
        """Wrong tail."""

        def pieces(self, entry: Entry, buffer: torch.Tensor) -> list[torch.Tensor]:
            """Starts are clamped so that p elements fit."""
            stored = entry.shard.numel()
            last = entry.numel - stored
            return [buffer.narrow(0, min(rank * stored, last), stored) for rank in range(self.world_size)]


class FusedStride(Fused):
    """G2: the shared buffer is filled with a stride of W * p and read with a stride of N."""

    class Session(Fused.Session):
        """Right where nothing is padded."""

        def stride(self, entry: Entry) -> int:
            """Without the padding."""
            return entry.numel


class MemoryOrder(Correct):
    """G3: flattening takes elements in memory order, not in the strided parameter's own."""

    @classmethod
    def flatten(cls, full: torch.Tensor) -> torch.Tensor:
        """From the first element on, whatever lies there."""
        return full.as_strided((full.numel(),), (1,)) if full.numel() else super().flatten(full)


class StridedShard(Correct):
    """G3: a shard without padding stays a strided view, and is sent as if it were contiguous."""

    @classmethod
    def shard(cls, full: torch.Tensor, rank: int, world_size: int, *, alignment: int = 1) -> torch.Tensor:
        """No copy where none seems needed."""
        stored = cls.shard_numel(full.numel(), world_size, alignment)
        if stored * world_size == full.numel():
            return full.reshape(-1)[rank * stored : (rank + 1) * stored]
        return super().shard(full, rank, world_size, alignment=alignment)

    class Session(Correct.Session):
        """Sends raw memory."""

        def sent(self, entry: Entry) -> torch.Tensor:
            """p elements from the first one on."""
            return entry.shard.as_strided((entry.shard.numel(),), (1,))


class StridedSend(StridedShard):
    """G3: a strided view is handed to the collective as it is."""

    class Session(Correct.Session):
        """The shard may be strided."""


class StaleByCount(Pooled):
    """G4: a spare buffer is used again by element count, whatever its dtype; the collective finds the wrong one."""

    class Session(Pooled.Session):
        """Right within one dtype."""

        def key(self, entry: Entry) -> Hashable:
            """Elements only."""
            return self.world_size * entry.shard.numel()


class StaleDtypeKept(StaleByCount):
    """G4: the same through staging memory, so that the result has the stale buffer's dtype."""

    class Session(StaleByCount.Session, Staged.Session):
        """Nothing raises."""


class InsertIfAbsent(Correct):
    """G5: the new buffer is dropped where there is one already, and the stale one is marked valid."""

    class Session(Correct.Session):
        """Insert where replace is meant."""

        def keep(self, entry: Entry, buffer: torch.Tensor) -> None:
            """The first buffer stays."""
            if entry.buffer is None:
                super().keep(entry, buffer)


class ValidAtLaunch(Correct):
    """G6: a prefetched parameter counts as valid from its launch on, and a gather does not wait for it."""

    class Session(Correct.Session):
        """Only `wait` waits."""

        def gather(self, id: str) -> torch.Tensor:
            """What is valid is there."""
            entry = self.entries[id]
            if entry.work is not None:
                return self.view(entry)
            return super().gather(id)

        def wait(self, id: str) -> torch.Tensor:
            """Complete."""
            self.complete(self.entries[id])
            return self.gather(id)

        def available(self, id: str) -> bool:
            """From the launch on."""
            return self.entries[id].valid or self.entries[id].work is not None


class AvailableAtLaunch(Correct):
    """G6: a parameter is said to be available as soon as its gather has started, though a gather waits for it."""

    class Session(Correct.Session):
        """Only the answer is wrong."""

        def available(self, id: str) -> bool:
            """From the launch on."""
            return self.entries[id].valid or self.entries[id].work is not None


class WaitsForNothing(Correct):
    """G6: waiting for a prefetched parameter returns at once."""

    class Session(Correct.Session):
        """A gather that was not prefetched is awaited."""

        def wait(self, id: str) -> torch.Tensor:
            """Whatever is there now."""
            entry = self.entries[id]
            return self.view(entry) if entry.work is not None else self.gather(id)


class GatherReturnsEarly(Correct):
    """G6: a plain gather returns while its collective is under way."""

    class Session(Correct.Session):
        """Only what was prefetched is awaited."""

        def gather(self, id: str) -> torch.Tensor:
            """Launched now: not awaited."""
            entry = self.entries[id]
            if entry.valid or entry.work is not None:
                return super().gather(id)
            self.launch(entry)
            return self.view(entry)


class LastHandleOnly(Staged):
    """G7: of several parameters prefetched together only the last one's handle is awaited."""

    class Session(Staged.Session):
        """Right for one parameter at a time."""

        def prefetch(self, ids: Sequence[str]) -> None:
            """One handle for all."""
            before = {id for id in ids if self.entries[id].work is not None}
            super().prefetch(ids)
            _share_last(self.entries[id] for id in ids if id not in before)


def _share_last(entries: Iterable[Entry]) -> None:
    under_way = [entry for entry in entries if entry.work is not None]
    for entry in under_way:
        entry.work = under_way[-1].work


class FirstHandleOnly(Staged):
    """G7: of several parameters prefetched together only the first one's handle is awaited."""

    class Session(Staged.Session):
        """Right for one parameter at a time."""

        def prefetch(self, ids: Sequence[str]) -> None:
            """One handle for all."""
            before = {id for id in ids if self.entries[id].work is not None}
            super().prefetch(ids)
            _share_last(self.entries[id] for id in reversed(ids) if id not in before)


class ViewKept(Correct):
    """G8: views that were handed out are kept, and with them the padded buffers after their release."""

    class Session(Correct.Session):
        """Remembers the last view of each parameter."""

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """No view yet."""
            super().__init__(group, device, layout)
            self.views: dict[str, torch.Tensor] = {}

        def view(self, entry: Entry) -> torch.Tensor:
            """Kept."""
            self.views[entry.id] = super().view(entry)
            return self.views[entry.id]


class SlotReset(PingPong):
    """G10: the index of the next staging buffer starts over with every prefetch, whatever is under way in it."""

    class Session(PingPong.Session):
        """Right for one prefetch at a time."""

        def prefetch(self, ids: Sequence[str]) -> None:
            """Back to the first buffer."""
            self.next = 0
            super().prefetch(ids)


class SlotNotEmptied(PingPong):
    """G10: a third gather starts in the first one's staging buffer before anybody took its contents out."""

    class Session(PingPong.Session):
        """Right for two at a time."""

        def make_room(self) -> None:
            """None is made."""


class SecondaryStale(Correct):
    """G11: a second copy of the shard is made at the first gather, sent ever after, and not refreshed by an update."""

    class Session(Correct.Session):
        """Right until contents change."""

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """No copy yet."""
            super().__init__(group, device, layout)
            self.secondary: dict[str, torch.Tensor] = {}

        def sent(self, entry: Entry) -> torch.Tensor:
            """The copy."""
            if entry.id not in self.secondary:
                self.secondary[entry.id] = entry.shard.clone()
            return self.secondary[entry.id]


class SecondaryStaleAfterLoad(SecondaryStale):
    """G11: the second copy is refreshed by an update but not by a load."""

    class Session(SecondaryStale.Session):
        """Right until a checkpoint is loaded."""

        def update(self, id: str, shard: torch.Tensor) -> None:
            """Copy anew."""
            super().update(id, shard)
            self.secondary.pop(self.entries[id].id, None)


class UpdateKeepsValid(Correct):
    """G11: an update leaves what was gathered valid."""

    class Session(Correct.Session):
        """The next gather returns the old contents."""

        def update(self, id: str, shard: torch.Tensor) -> None:
            """Without invalidating."""
            entry = self.entries[id]
            self.complete(entry)
            entry.shard = shard
            self.scalars["updates"] += 1


class ZeroDivides(Correct):
    """G12: rows are counted by dividing by their length, which may be zero."""

    class Session(Correct.Session):
        """Right where no dimension but the first is zero."""

        def view(self, entry: Entry) -> torch.Tensor:
            """By rows."""
            if not entry.shape:
                return super().view(entry)
            rows = entry.numel // math.prod(entry.shape[1:])
            assert entry.buffer is not None  # a complete gather has one
            return entry.buffer[: entry.numel].view(rows, *entry.shape[1:])


class ZeroCrashes(Correct):
    """G12: the transport dies of a count of zero."""

    class Session(Correct.Session):
        """Right where there is something to send."""

        def communicate(self, pieces: list[torch.Tensor], sent: torch.Tensor) -> Any:
            """As an integer division by zero does."""
            if not sent.numel():
                signal.raise_signal(signal.SIGFPE)
            return super().communicate(pieces, sent)


class EmptyShapeLost(Correct):
    """G12: a parameter without elements comes back as a plain empty tensor."""

    class Session(Correct.Session):
        """Right where there are elements."""

        def view(self, entry: Entry) -> torch.Tensor:
            """Nothing is nothing."""
            return super().view(entry) if entry.numel else torch.empty(0, dtype=entry.dtype, device=self.device)


class ScalarShapeLost(Correct):
    """G12: a scalar comes back with one dimension."""

    class Session(Correct.Session):
        """Right where there is a shape."""

        def view(self, entry: Entry) -> torch.Tensor:
            """At least one dimension."""
            view = super().view(entry)
            return view.reshape(view.shape or (1,))


class RotatedShard(Correct):
    """G13: every shard arrives shifted by one element, which constant shards hide."""

    class Session(Correct.Session):
        """Right for one element a rank."""

        def keep(self, entry: Entry, buffer: torch.Tensor) -> None:
            """Shift when it is there."""
            super().keep(entry, buffer)
            self.complete(entry)
            if buffer.numel():
                shards = buffer.view(self.world_size, -1)
                shards.copy_(shards.roll(1, 1))


class RanksPermuted(Correct):
    """G13: shards arrive in each other's places, which equal shards hide."""

    class Session(Correct.Session):
        """Right for one rank."""

        def pieces(self, entry: Entry, buffer: torch.Tensor) -> list[torch.Tensor]:
            """From the last to the first."""
            return super().pieces(entry, buffer)[::-1]


class EvenCount(Correct):
    """G14: counts are rounded down to pairs, and the last element of an odd shard is not moved."""

    class Session(Correct.Session):
        """Right for even counts."""

        def communicate(self, pieces: list[torch.Tensor], sent: torch.Tensor) -> Any:
            """Whole pairs."""
            count = sent.numel() // 2 * 2
            return super().communicate([piece[:count] for piece in pieces], sent[:count])


class AlignedSend(Correct):
    """G14: the send address is rounded down to a pair of elements."""

    class Session(Correct.Session):
        """Right for even offsets."""

        def sent(self, entry: Entry) -> torch.Tensor:
            """From the start of the pair."""
            shard = entry.shard
            return shard.as_strided(shard.shape, shard.stride(), shard.storage_offset() // 2 * 2)


class TwoFormulas(Correct):
    """G16: a prefetch takes sizes from the shard, a plain gather from the shape without the alignment."""

    class Session(Correct.Session):
        """Right where no alignment lengthens a shard."""

        def gather(self, id: str) -> torch.Tensor:
            """By ceil(N / W) elements a rank."""
            entry = self.entries[id]
            if entry.valid or entry.work is not None:
                return super().gather(id)
            whole, entry.shard = entry.shard, entry.shard[: self.padded.shard_numel(entry.numel, self.world_size)]
            try:
                return super().gather(id)
            finally:
                entry.shard = whole
