"""A small, plain and correct implementation over flat padded shards, made of steps that fault models replace.

It imports nothing of the project's: it is code under test, like any other. It shares no line with the shipped
implementation, so that it is one more that must never be accused.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import torch
import torch.distributed as dist


class Padded:
    """The arithmetic: ceil(N / W) elements a rank, rounded up to the alignment, the last shards padded."""

    @classmethod
    def shard_numel(cls, numel: int, world_size: int, alignment: int = 1) -> int:
        """Elements that every rank stores."""
        return -(-numel // (world_size * alignment)) * alignment

    @classmethod
    def owned(cls, numel: int, rank: int, world_size: int, alignment: int = 1) -> int:
        """Elements of the parameter among those of this rank."""
        stored = cls.shard_numel(numel, world_size, alignment)
        return max(0, min(stored, numel - rank * stored))

    @classmethod
    def flatten(cls, full: torch.Tensor) -> torch.Tensor:
        """The logical elements in row-major order, contiguous."""
        return full.contiguous().reshape(-1)

    @classmethod
    def shard(cls, full: torch.Tensor, rank: int, world_size: int, *, alignment: int = 1) -> torch.Tensor:
        """What this rank stores, padding as zeros."""
        flat = cls.flatten(full)
        stored = cls.shard_numel(full.numel(), world_size, alignment)
        owned = cls.owned(full.numel(), rank, world_size, alignment)
        shard = flat.new_zeros(stored)
        if owned:
            shard[:owned] = flat.narrow(0, rank * stored, owned)
        return shard

    @classmethod
    def layout(cls, shape: Sequence[int], rank: int, world_size: int, *, alignment: int = 1) -> dict[str, Any]:
        """What `shard` would store, without data."""
        numel = math.prod(shape)
        stored = cls.shard_numel(numel, world_size, alignment)
        owned = cls.owned(numel, rank, world_size, alignment)
        return {
            "shard_numel": stored,
            "padded_numel": world_size * stored,
            "runs": [(0, rank * stored, owned, owned, 1)] if owned else [],
            "logical_shape": tuple(shape),
        }


@dataclass(slots=True, eq=False)
class Entry:
    """One registered parameter; tied ids share it.

    `buffer` holds what was gathered last, `work` is the gather under way, `valid` says that the buffer is complete
    and not stale. `pending` are gradients added up since the last reduce.
    """

    id: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    shard: torch.Tensor
    comm_dtype: torch.dtype | None
    names: list[str]
    buffer: torch.Tensor | None = None
    work: Any = None
    valid: bool = False
    pending: torch.Tensor | None = None

    @property
    def numel(self) -> int:
        """Elements of the true shape."""
        return math.prod(self.shape)


@dataclass(slots=True)
class Saved:
    """What a file holds: whole parameters in their true shapes, and 0-dim values beside them."""

    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    scalars: dict[str, int] = field(default_factory=dict)
    world_size: int = 1


class FlatSession:
    """One rank's parameters over one group. Every rank makes the same calls in the same order."""

    padded: ClassVar[type[Padded]] = Padded

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
        """Nothing is registered yet."""
        self.group, self.device = group, device
        self.rank, self.world_size = dist.get_rank(group), dist.get_world_size(group)
        self.alignment = int(layout.get("alignment", 1))
        self.entries: dict[str, Entry] = {}
        self.reduced: dict[str, torch.Tensor] = {}
        self.scalars = {"updates": 0}

    # Registration: every rank tells all others what it has, and all judge the same manifests by the same rule.

    def register(self, specs: Sequence[Any]) -> None:
        """Take the parameters, or raise ValueError on every rank."""
        try:
            entries, trouble = self.take(specs), ""
        except Exception as error:  # whatever it is, the other ranks must hear of it
            entries, trouble = {}, f"{type(error).__name__}: {error}"
        mine = {"trouble": trouble, "parameters": [self.describe(id, entry) for id, entry in entries.items()]}
        problem = self.compare(self.exchange(mine))
        if problem:
            self.refuse(problem)
        self.entries.update(entries)

    def take(self, specs: Sequence[Any]) -> dict[str, Entry]:
        """Entries of these specs; a tied one is its root's."""
        entries: dict[str, Entry] = {}
        for spec in specs:
            root = entries.get(spec.tied_to)
            if root is not None:
                if (tuple(spec.shape), spec.dtype) != (root.shape, root.dtype):
                    raise ValueError(f"{spec.id} is tied to {root.id}, which has another shape or dtype")
                root.names.append(spec.id)
                entries[spec.id] = root
            else:
                entries[spec.id] = self.entry(spec)
        return entries

    def entry(self, spec: Any) -> Entry:
        """The entry of a parameter that is tied to none before it."""
        return Entry(spec.id, tuple(spec.shape), spec.dtype, spec.shard, spec.comm_dtype, [spec.id])

    def describe(self, id: str, entry: Entry) -> dict[str, Any]:
        """What must be the same on every rank, and the length that a shard of this shape has."""
        return {
            "id": id,
            "shape": entry.shape,
            "dtype": str(entry.dtype),
            "comm_dtype": str(entry.comm_dtype),
            "tied_to": entry.id,
            "stored": entry.shard.numel(),
            "expected": self.stored(entry.numel),
        }

    def exchange(self, mine: dict[str, Any]) -> list[dict[str, Any]]:
        """Every rank's manifest, by rank: lengths first, so that nothing hangs however much ranks differ."""
        text = json.dumps(mine).encode()
        lengths = [int(length) for length in self.all_gather(torch.tensor([len(text)]))]
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        padded[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        pieces = self.all_gather(padded)
        return [json.loads(bytes(piece[:n].tolist())) for piece, n in zip(pieces, lengths, strict=True)]

    def all_gather(self, mine: torch.Tensor) -> list[torch.Tensor]:
        """Every rank's tensor of one shape, on the CPU, by rank."""
        pieces = [torch.empty_like(mine, device=self.device) for _ in range(self.world_size)]
        dist.all_gather(pieces, mine.to(self.device), group=self.group)
        return [piece.cpu() for piece in pieces]

    def compare(self, manifests: Sequence[dict[str, Any]]) -> str:
        """What is wrong with the manifests, the same text on every rank; empty where nothing is."""
        for rank, manifest in enumerate(manifests):
            if manifest["trouble"]:
                return f"rank {rank}: {manifest['trouble']}"
        for rank, manifest in enumerate(manifests):
            if not self.same(manifest["parameters"], manifests[0]["parameters"]):
                return f"rank {rank} registers {manifest['parameters']}, rank 0 {manifests[0]['parameters']}"
            for parameter in manifest["parameters"]:
                if not self.fits(parameter):
                    return f"rank {rank}: {parameter} does not store what it is expected to"
        return ""

    def same(self, one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
        """Whether two ranks' lists of parameters agree."""
        return one == other

    def fits(self, parameter: dict[str, Any]) -> bool:
        """Whether a shard has the length that its parameter's shape asks for."""
        return bool(parameter["stored"] == parameter["expected"])

    def refuse(self, problem: str) -> None:
        """Say no."""
        raise ValueError(problem)

    def stored(self, numel: int) -> int:
        """Elements of a shard here."""
        return self.padded.shard_numel(numel, self.world_size, self.alignment)

    def owned(self, entry: Entry) -> int:
        """Elements of the parameter among those of this rank."""
        return self.padded.owned(entry.numel, self.rank, self.world_size, self.alignment)

    # Gathering: into a fresh buffer of W * p elements, so that no earlier result is ever written to.

    def gather(self, id: str) -> torch.Tensor:
        """The whole parameter, complete."""
        entry = self.entries[id]
        if not entry.valid and entry.work is None:
            self.launch(entry)
        self.complete(entry)
        return self.view(entry)

    def prefetch(self, ids: Sequence[str]) -> None:
        """Start gathering what is neither valid nor under way."""
        for id in ids:
            entry = self.entries[id]
            if not entry.valid and entry.work is None:
                self.launch(entry)

    def wait(self, id: str) -> torch.Tensor:
        """The prefetched parameter, complete."""
        return self.gather(id)

    def launch(self, entry: Entry) -> None:
        """Start one all-gather."""
        buffer = self.buffer(entry)
        entry.work = self.communicate(self.pieces(entry, buffer), self.sent(entry))
        self.keep(entry, buffer)

    def buffer(self, entry: Entry) -> torch.Tensor:
        """Memory to gather into: W * p elements."""
        return torch.empty(self.world_size * entry.shard.numel(), dtype=entry.dtype, device=self.device)

    def pieces(self, entry: Entry, buffer: torch.Tensor) -> list[torch.Tensor]:
        """Where each rank's shard arrives."""
        return list(buffer.view(self.world_size, entry.shard.numel()))

    def sent(self, entry: Entry) -> torch.Tensor:
        """What this rank sends."""
        return entry.shard

    def communicate(self, pieces: list[torch.Tensor], sent: torch.Tensor) -> Any:
        """Start the collective; something with a wait(). Nothing is sent where there are no elements."""
        if not sent.numel():
            return Done()
        return dist.all_gather(pieces, sent, group=self.group, async_op=True)

    def keep(self, entry: Entry, buffer: torch.Tensor) -> None:
        """This gather's buffer is the parameter's from now on."""
        entry.buffer = buffer

    def complete(self, entry: Entry) -> None:
        """Wait for the gather under way, if there is one: valid from then on."""
        if entry.work is not None:
            entry.work.wait()
            entry.work, entry.valid = None, True

    def view(self, entry: Entry) -> torch.Tensor:
        """The buffer without its padding, in the true shape."""
        assert entry.buffer is not None  # a complete gather has one
        return entry.buffer[: entry.numel].view(entry.shape)

    def available(self, id: str) -> bool:
        """Whether the parameter is complete and not stale."""
        return self.entries[id].valid

    def invalidate(self, id: str) -> None:
        """The next gather communicates."""
        entry = self.entries[id]
        self.complete(entry)
        entry.valid = False

    def release(self, id: str) -> None:
        """Give the buffer up."""
        self.invalidate(id)
        self.entries[id].buffer = None

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Send this shard from now on."""
        self.invalidate(id)
        self.entries[id].shard = shard
        self.scalars["updates"] += 1

    # Reducing: a zero-padded copy of W * p elements is added up over all ranks, and each cuts its shard out.

    def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
        """Add to what the next reduce sends."""
        for id, grad in grads.items():
            entry = self.entries[id]
            entry.pending = grad.clone() if entry.pending is None else entry.pending + grad

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """This rank's shards of the sums or means, padding as zeros."""
        totals = {id: self.total(self.entries[id], grad) for id, grad in grads.items()}
        self.reduced = self.reduce_all(totals, reduction)
        return self.reduced

    def total(self, entry: Entry, grad: torch.Tensor) -> torch.Tensor:
        """This rank's contribution, accumulated gradients included."""
        pending, entry.pending = entry.pending, None
        return grad if pending is None else pending + grad

    def reduce_all(self, totals: Mapping[str, torch.Tensor], reduction: str) -> dict[str, torch.Tensor]:
        """One after the other."""
        return {id: self.reduce_one(self.entries[id], total, reduction) for id, total in totals.items()}

    def reduce_one(self, entry: Entry, total: torch.Tensor, reduction: str) -> torch.Tensor:
        """One gradient's shard, in the gradient's dtype."""
        padded = self.pad(entry, total, entry.comm_dtype or total.dtype)
        self.add_up(entry, padded)
        return self.finish(self.cut(entry, padded), reduction, total.dtype)

    def pad(self, entry: Entry, total: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A copy of W * p elements, zeros past the end."""
        padded = torch.zeros(self.world_size * self.stored(entry.numel), dtype=dtype, device=self.device)
        padded[: entry.numel] = total.reshape(-1)
        return padded

    def add_up(self, entry: Entry, padded: torch.Tensor) -> None:  # noqa: ARG002  # fault models look at the entry
        """Sum over all ranks, in place."""
        if padded.numel():
            dist.all_reduce(padded, group=self.group)

    def cut(self, entry: Entry, padded: torch.Tensor) -> torch.Tensor:
        """This rank's shard, in memory of its own."""
        stored = self.stored(entry.numel)
        return padded[self.rank * stored : (self.rank + 1) * stored].clone()

    def finish(self, shard: torch.Tensor, reduction: str, dtype: torch.dtype) -> torch.Tensor:
        """Divide where a mean is asked for, and go back to the gradient's dtype."""
        if reduction == "mean":
            shard = torch.div(shard, self.world_size, rounding_mode=None if shard.is_floating_point() else "floor")
        return shard.to(dtype)

    def norm(self) -> float:
        """The 2-norm of what was reduced last, over all ranks."""
        squares = torch.zeros(1, dtype=torch.float64, device=self.device)
        for id, shard in self.reduced.items():
            squares += self.squares(self.entries[id], shard)
        dist.all_reduce(squares, group=self.group)
        return math.sqrt(float(squares))

    def squares(self, entry: Entry, shard: torch.Tensor) -> torch.Tensor:
        """The sum of squares of what this rank owns; 0 where that is nothing."""
        return shard[: self.owned(entry)].double().square().sum()

    # Checkpoints: rank 0 writes whole parameters in their true shapes; every rank cuts its shard from what it reads.

    def save(self, path: str) -> None:
        """Write all parameters; the file is complete on return on every rank."""
        saved = Saved(scalars=dict(self.scalars), world_size=self.world_size)
        for id, entry in self.entries.items():
            needed = entry.valid or entry.work is not None
            saved.parameters[id] = self.artefact(entry, self.gather(id))
            if not needed:
                self.release(id)
        if self.rank == 0:
            self.write(path, saved)
        self.barrier()

    def write(self, path: str, saved: Saved) -> None:
        """Put it into a file."""
        torch.save(asdict(saved), path)

    def artefact(self, entry: Entry, whole: torch.Tensor) -> torch.Tensor:  # noqa: ARG002  # fault models look at the entry
        """What the file holds of one parameter: a copy, since a view would bring its padding along."""
        return whole.cpu().clone()

    def barrier(self) -> None:
        """Return when every rank has come here."""
        dist.all_reduce(torch.zeros(1, device=self.device), group=self.group)

    def read(self, path: str) -> dict[str, torch.Tensor]:
        """The whole parameters in a file."""
        return self.contents(path).parameters

    def contents(self, path: str) -> Saved:
        """All that a file holds."""
        return Saved(**torch.load(path, weights_only=True))

    def load(self, path: str) -> None:
        """Replace every parameter and scalar by the file's, at whatever world size it was written."""
        saved = self.contents(path)
        for id, entry in self.entries.items():
            if id == entry.id:
                self.invalidate(id)
                entry.shard = self.loaded(entry, saved).to(self.device)
        self.scalars = dict(saved.scalars)

    def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
        """This rank's shard of what the file holds."""
        return self.padded.shard(saved.parameters[entry.id], self.rank, self.world_size, alignment=self.alignment)

    @contextmanager
    def profile(self) -> Iterator[list[dict[str, float]]]:
        """A record of what happens inside, in the list when it ends."""
        records: list[dict[str, float]] = []
        before, began = self.held(), time.perf_counter()
        yield records
        records.append(self.record(self.held() - before, time.perf_counter() - began))

    def held(self) -> int:
        """Bytes of gathered buffers."""
        return sum(entry.buffer.nbytes for entry in self.entries.values() if entry.buffer is not None)

    def record(self, nbytes: int, seconds: float) -> dict[str, float]:
        """Memory in bytes, times in seconds."""
        return {"alloc_mem": nbytes, "max_mem": max(nbytes, 0), "device_time": seconds, "wall_time": seconds}


class Done:
    """A collective with nothing to move."""

    def wait(self) -> None:
        """Nothing to wait for."""


class Correct(Padded):
    """Plain list all-gather into a padded buffer, all-reduce and cut; nothing is wrong with it."""

    alignments = (1, 2, 3, 8)

    class Session(FlatSession):
        """The correct one."""

    def __init_subclass__(cls) -> None:
        """A fault in the arithmetic is a fault of the session too."""
        super().__init_subclass__()
        attributes = {"padded": cls, "__doc__": cls.Session.__doc__}
        cls.Session = type("Session", (cls.Session,), attributes)  # type: ignore[misc,assignment]  # a class made here
