"""Faults in what registration accepts and refuses (rows R1 to R9)."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any

import torch

from shardproof.fault_models.base import Correct, Entry

Described = dict[str, Any]


def _without(parameters: Sequence[Described], *keys: str) -> list[Described]:
    return [{key: value for key, value in parameter.items() if key not in keys} for parameter in parameters]


class ComparesOwned(Correct):
    """R1: unpadded shard sizes are compared, so every uneven shape is refused."""

    class Session(Correct.Session):
        """One more thing must agree that need not."""

        def describe(self, id: str, entry: Entry) -> Described:
            """Beside the rest, what this rank owns."""
            return super().describe(id, entry) | {"owned": self.owned(entry)}


class SizeFromGradient(Correct):
    """R2: the size is taken from the gradient buffer, which may be as long as a shard; then nothing fits."""

    class Session(Correct.Session):
        """Right for full-size buffers."""

        def entry(self, spec: Any) -> Entry:
            """The gradient's shape, where there is one."""
            entry = super().entry(spec)
            if spec.grad is not None:
                entry.shape = tuple(spec.grad.shape)
            return entry


class ViewedAsGradient(SizeFromGradient):
    """R2: the same without a check of lengths, so that a gather has the gradient buffer's shape."""

    class Session(SizeFromGradient.Session):
        """Everything fits."""

        def fits(self, parameter: Described) -> bool:  # noqa: ARG002  # the fault is not to look
            """Not looked at."""
            return True


class ShardNotLookedAt(Correct):
    """R3: the check is a function of the shape alone, so wrong shard lengths pass."""

    class Session(Correct.Session):
        """The shard is not looked at."""

        def describe(self, id: str, entry: Entry) -> Described:
            """The length that the shape asks for, twice."""
            described = super().describe(id, entry)
            return described | {"stored": described["expected"]}


class ShardLengthFromOwn(Correct):
    """R3: lengths are compared between ranks but not with the shape, so a length wrong everywhere passes."""

    class Session(Correct.Session):
        """Whatever all ranks agree on is right."""

        def fits(self, parameter: Described) -> bool:  # noqa: ARG002  # the fault is not to look
            """Not looked at."""
            return True


class DtypeNotCompared(Correct):
    """R3: the manifest holds no dtype."""

    class Session(Correct.Session):
        """One thing less must agree."""

        def describe(self, id: str, entry: Entry) -> Described:
            """Without the dtype."""
            return _without([super().describe(id, entry)], "dtype")[0]


class ComparesShardLength(Correct):
    """R4: only shard lengths are compared, and (7,) and (8,) have the same over two ranks."""

    class Session(Correct.Session):
        """Shapes need not agree."""

        def same(self, one: list[Described], other: list[Described]) -> bool:
            """All but the shape."""
            return _without(one, "shape") == _without(other, "shape")


class ComparesNumel(Correct):
    """R4: only element counts are compared, and (2, 3) and (3, 2) have the same."""

    class Session(Correct.Session):
        """Shapes need not agree."""

        def describe(self, id: str, entry: Entry) -> Described:
            """The count in the shape's place."""
            return super().describe(id, entry) | {"shape": entry.numel}


class OrderIgnored(Correct):
    """R5: ranks may register the same parameters in another order."""

    class Session(Correct.Session):
        """Sorted before the comparison."""

        def same(self, one: list[Described], other: list[Described]) -> bool:
            """As sets."""
            return sorted(map(json.dumps, one)) == sorted(map(json.dumps, other))


class IdsIgnored(Correct):
    """R5: ids are not compared, so ranks that register equal shapes under other names agree."""

    class Session(Correct.Session):
        """Positions count."""

        def same(self, one: list[Described], other: list[Described]) -> bool:
            """All but the names."""
            return _without(one, "id", "tied_to") == _without(other, "id", "tied_to")


class ExtraIgnored(Correct):
    """R5: parameters that only some ranks have are passed over."""

    class Session(Correct.Session):
        """The shorter list decides."""

        def same(self, one: list[Described], other: list[Described]) -> bool:
            """As far as both go."""
            return all(a == b for a, b in zip(one, other, strict=False))


class OneCollectiveEach(Correct):
    """R6: one collective a parameter and no counts, so ranks with different numbers of parameters wait for ever."""

    class Session(Correct.Session):
        """Digests instead of manifests."""

        def exchange(self, mine: dict[str, Any]) -> list[dict[str, Any]]:
            """Parameter by parameter."""
            if mine["trouble"]:
                raise ValueError(mine["trouble"])
            manifests: list[dict[str, Any]] = [{"trouble": "", "parameters": []} for _ in range(self.world_size)]
            for parameter in mine["parameters"]:
                digest = hashlib.sha256(json.dumps(parameter).encode()).digest()
                pieces = self.all_gather(torch.frombuffer(bytearray(digest), dtype=torch.uint8))
                for manifest, piece in zip(manifests, pieces, strict=True):
                    manifest["parameters"].append({"digest": piece.tolist()})
            return manifests

        def fits(self, parameter: Described) -> bool:
            """A digest of what fits agrees with everybody's."""
            return bool(parameter)


class RaisesAlone(Correct):
    """R7: a rank that cannot read its parameters raises before the exchange, and its peers wait."""

    class Session(Correct.Session):
        """Nobody is told."""

        def register(self, specs: Sequence[Any]) -> None:
            """Read everything first."""
            self.take(specs)
            super().register(specs)


class ChecksAlone(Correct):
    """R7: a rank finds its own shard too long, raises before the exchange, and its peers wait."""

    class Session(Correct.Session):
        """Nobody is told."""

        def register(self, specs: Sequence[Any]) -> None:
            """Check one's own lengths first."""
            for spec in specs:
                if spec.shard.numel() != self.stored(spec.full.numel()):
                    raise ValueError(f"{spec.id} has a shard of {spec.shard.numel()} elements")
            super().register(specs)


class RefusedByFirst(Correct):
    """R7: only rank 0 looks at the manifests and refuses; the others go on."""

    class Session(Correct.Session):
        """A check on one rank."""

        def compare(self, manifests: Sequence[dict[str, Any]]) -> str:
            """Nothing is wrong on the other ranks."""
            return super().compare(manifests) if self.rank == 0 else ""


class FrozenHasNoEntry(Correct):
    """R8: a frozen parameter has no gradient buffer, and looking it up fails."""

    class Session(Correct.Session):
        """A table of gradient buffers."""

        def take(self, specs: Sequence[Any]) -> dict[str, Entry]:
            """Every id must be in the table."""
            buffers = {spec.id: spec.grad for spec in specs if spec.requires_grad}
            self.gradients = [buffers[spec.id] for spec in specs]
            return super().take(specs)


class GradientExpected(Correct):
    """R8: a parameter whose gradient buffer does not exist yet cannot be registered."""

    class Session(Correct.Session):
        """The buffer's dtype is read."""

        def entry(self, spec: Any) -> Entry:
            """Fails where there is no buffer."""
            if spec.requires_grad:
                self.gradient_dtype = spec.grad.dtype
            return super().entry(spec)


class LoggedNotRaised(Correct):
    """R9: the refusal is logged, and registration goes on."""

    class Session(Correct.Session):
        """Nobody can observe it."""

        def refuse(self, problem: str) -> None:
            """Tell the log."""
            logging.getLogger(__name__).debug(problem)
