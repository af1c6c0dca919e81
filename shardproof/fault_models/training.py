"""Faults in training (losses, gradients, clipping, steps, resuming), and a correct variant that they are planted in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from shardproof.fault_models.base import Correct, Entry


class Trained(Correct):
    """Correct: the documented model, with its gradients written out, and a step on a copy of each shard."""

    class Session(Correct.Session):
        """Weights of a forward are kept, in float64, until its backward."""

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """Nothing is frozen, nothing was run."""
            super().__init__(group, device, layout)
            self.frozen: set[str] = set()
            self.seen: dict[str, torch.Tensor] = {}
            self.value = 0

        def entry(self, spec: Any) -> Entry:
            """Remember what gets no gradient."""
            if not spec.requires_grad:
                self.frozen.add(spec.id)
            return super().entry(spec)

        def forward(self, value: int) -> float:
            """The loss over all ranks."""
            self.value = value
            self.seen = {id: self.weight(id) for id, entry in self.entries.items() if entry.dtype.is_floating_point}
            loss = torch.zeros(1, dtype=torch.float64, device=self.device)
            for w in self.seen.values():
                loss += (w * self.inputs(w.numel()) + w * w / 2).sum()
            return float(self.over_ranks(loss))

        def weight(self, id: str) -> torch.Tensor:
            """A flat copy of the whole parameter."""
            return self.gather(id).reshape(-1).to(torch.float64, copy=True)

        def inputs(self, numel: int) -> torch.Tensor:
            """What the elements of a parameter meet on this rank."""
            positions = torch.arange(numel, device=self.device)
            return (positions + 3 * self.rank + 5 * self.value) % 7 - 3

        def over_ranks(self, loss: torch.Tensor) -> torch.Tensor:
            """Added up."""
            dist.all_reduce(loss, group=self.group)
            return loss

        def backward(self) -> Mapping[str, torch.Tensor]:
            """This rank's shards of the summed gradients, what was accumulated included."""
            grads: dict[str, torch.Tensor] = {}
            for id, w in self.seen.items():
                entry = self.entries[id]
                if entry.id not in self.frozen:
                    grad = self.local(entry, w).to(entry.dtype).view(entry.shape)
                    grads[entry.id] = grads[entry.id] + grad if entry.id in grads else grad
            self.seen = {}
            totals = {id: self.total(self.entries[id], grad) for id, grad in grads.items()}
            self.reduced = self.reduce_all(totals, self.reduction())
            return dict(self.reduced)

        def local(self, entry: Entry, w: torch.Tensor) -> torch.Tensor:  # noqa: ARG002  # fault models look at the entry
            """The gradient of one use of a parameter on this rank."""
            return w + self.inputs(w.numel())

        def reduction(self) -> str:
            """How ranks' gradients are put together."""
            return "sum"

        def clip(self, bound: float) -> float:
            """Scale down to the bound; the norm before."""
            before = self.norm()
            norm = self.measured(before)
            if norm > bound:
                self.reduced = {id: (shard * (bound / norm)).to(shard.dtype) for id, shard in self.reduced.items()}
            return before

        def measured(self, norm: float) -> float:
            """The norm that decides."""
            return norm

        def step(self, learning_rate: float) -> None:
            """Every shard that has a gradient."""
            for id, gradient in self.stepped():
                entry = self.entries[id]
                self.change(entry, gradient, learning_rate)
                self.after_step(id)
            self.scalars["updates"] += 1

        def stepped(self) -> Sequence[tuple[str, torch.Tensor]]:
            """What a step changes, and by which gradients."""
            return tuple(self.reduced.items())

        def change(self, entry: Entry, gradient: torch.Tensor, learning_rate: float) -> None:
            """Rounded once."""
            wide = torch.promote_types(entry.dtype, torch.float32)
            entry.shard = (entry.shard.to(wide) - learning_rate * gradient.to(wide)).to(entry.dtype)

        def after_step(self, id: str) -> None:
            """What was gathered is out of date."""
            self.invalidate(id)


class LastShardNotStepped(Trained):
    """A step leaves out the last rank's shard."""

    class Session(Trained.Session):
        """Right on every other rank."""

        def change(self, entry: Entry, gradient: torch.Tensor, learning_rate: float) -> None:
            """Not here."""
            if self.rank < self.world_size - 1 or self.world_size == 1:
                super().change(entry, gradient, learning_rate)


class ClipsByLocalNorm(Trained):
    """The norm that decides on clipping is that of this rank's shards."""

    class Session(Trained.Session):
        """Right where one rank has it all."""

        def measured(self, norm: float) -> float:  # noqa: ARG002  # the one that should be taken
            """Not added up over ranks."""
            return math.sqrt(sum(float(self.squares(self.entries[id], shard)) for id, shard in self.reduced.items()))


class StepForgetsClip(Trained):
    """A step takes the gradients as they were before they were clipped."""

    class Session(Trained.Session):
        """Right below the bound."""

        def clip(self, bound: float) -> float:
            """The scaled ones are dropped."""
            kept = self.reduced
            before = super().clip(bound)
            self.reduced = kept
            return before


class GradientsAveraged(Trained):
    """A backward averages over ranks where it should add up."""

    class Session(Trained.Session):
        """Right on one rank."""

        def reduction(self) -> str:
            """Divided by the world size."""
            return "mean"


class LossOfOneRank(Trained):
    """The loss is this rank's own."""

    class Session(Trained.Session):
        """Right on one rank."""

        def over_ranks(self, loss: torch.Tensor) -> torch.Tensor:
            """Not added up."""
            return loss


class NoGradientWithoutShard(Trained):
    """A rank that stores only padding of a parameter takes no part in its gradient."""

    class Session(Trained.Session):
        """Right where every rank owns some."""

        def local(self, entry: Entry, w: torch.Tensor) -> torch.Tensor:
            """Nothing."""
            found = super().local(entry, w)
            return found if self.owned(entry) else torch.zeros_like(found)


class AccumulatedDropped(Trained):
    """N8: a backward starts over from zero, whatever was accumulated."""

    class Session(Trained.Session):
        """Right where nothing was."""

        def backward(self) -> Mapping[str, torch.Tensor]:
            """Empty first."""
            for entry in self.entries.values():
                entry.pending = None
            return super().backward()


class TiedSteppedTwice(Trained):
    """N4: a step goes over all names, and changes what has two of them twice."""

    class Session(Trained.Session):
        """Right where nothing is tied."""

        def stepped(self) -> Sequence[tuple[str, torch.Tensor]]:
            """By name."""
            named = ((id, entry.id) for id, entry in self.entries.items())
            return tuple((id, self.reduced[root]) for id, root in named if root in self.reduced)


class StepKeepsValid(Trained):
    """G11: what was gathered before a step still counts as current after it."""

    class Session(Trained.Session):
        """Right for what was not gathered."""

        def after_step(self, id: str) -> None:
            """Nothing is invalidated."""


class ForwardOnFirstWeights(Trained):
    """The model keeps a copy of the weights that it ran on first."""

    class Session(Trained.Session):
        """Right the first time."""

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """None yet."""
            super().__init__(group, device, layout)
            self.first: dict[str, torch.Tensor] = {}

        def weight(self, id: str) -> torch.Tensor:
            """Gathered once."""
            return self.first.setdefault(id, super().weight(id)).clone()


class MasterNotLoaded(Trained):
    """A step changes a copy of the weights in wider precision, which a load does not replace."""

    class Session(Trained.Session):
        """Right until a load."""

        def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
            """None yet."""
            super().__init__(group, device, layout)
            self.masters: dict[str, torch.Tensor] = {}

        def entry(self, spec: Any) -> Entry:
            """Copied at registration."""
            entry = super().entry(spec)
            self.masters[entry.id] = entry.shard.clone()
            return entry

        def update(self, id: str, shard: torch.Tensor) -> None:
            """Both are written."""
            super().update(id, shard)
            self.masters[self.entries[id].id] = shard.clone()

        def change(self, entry: Entry, gradient: torch.Tensor, learning_rate: float) -> None:
            """The copy is, and what is gathered follows it."""
            entry.shard = self.masters[entry.id]
            super().change(entry, gradient, learning_rate)
            self.masters[entry.id] = entry.shard.clone()


class PaddingRankStartsOver(Trained):
    """C4: a rank that stores only padding of a parameter loads no optimizer state, and counts its steps from 0."""

    class Session(Trained.Session):
        """Right where every rank owns some of everything."""

        def load(self, path: str) -> None:
            """Parameters only."""
            super().load(path)
            if not all(self.owned(entry) for entry in self.entries.values()):
                self.scalars = dict.fromkeys(self.scalars, 0)
