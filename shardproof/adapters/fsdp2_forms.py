"""FSDP2 in its other forms: HSDP, and whole parameters kept or given up, wholly or in part, after a forward.

Each is the session of `fsdp2` with another mesh or another `reshard_after_forward`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from shardproof.adapters import fsdp2
from shardproof.adapters.fsdp2_layout import layout
from shardproof.adapters.fsdp2_policy import policy
from shardproof.adapters.sharded import local_of

if TYPE_CHECKING:
    from shardproof.protocol import Spec


@cache
def _mesh(device_type: str, ranks: tuple[int, ...], group_size: int) -> DeviceMesh:
    """Rows of consecutive ranks. Kept: each mesh makes process groups of its own, which nobody takes back."""
    rows = torch.tensor(ranks).view(-1, group_size)
    return DeviceMesh(device_type, rows, mesh_dim_names=("replicate", "shard"))


class Hsdp:
    """A mesh of two dimensions: sharded inside groups of ranks, replicated over them.

    Gradients are accumulated as `set_requires_all_reduce` is for: reduced inside the groups, not over them.
    """

    layouts = ("grouped_chunk",)
    promises = ()

    @staticmethod
    def policy(case: Any) -> tuple[str, str, str]:
        """As over one dimension."""
        return policy(case)

    @staticmethod
    def layout(shape: Sequence[int], rank: int, world_size: int, *, group_size: int, dim: int = 0) -> dict[str, Any]:  # noqa: ARG004  # every group is like the first
        """That of the rank's place in its group."""
        return layout(shape, rank % group_size, group_size, dim=dim)

    class Session(fsdp2.Session):
        """See `shardproof.protocol.Session`."""

        _accumulated = False

        def mesh(self, group: dist.ProcessGroup, device_type: str, layout: Mapping[str, Any]) -> DeviceMesh:
            """The ranks of the group in rows."""
            return _mesh(device_type, tuple(dist.get_process_group_ranks(group)), int(layout["group_size"]))

        def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
            """A backward with reduce-scatters and without all-reduces, as a sum: what is to follow is not known yet."""
            for id in grads:
                self._sharded[id].grad = None
                self._units[id].set_gradient_divide_factor(1.0)
            self._accumulated = True
            self._backward(grads, sync=True, all_reduce=False)

        def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
            """A divide factor holds from the first accumulation on, so that what was added up is meant here."""
            accumulated, self._accumulated = self._accumulated, False
            if not accumulated or reduction == "sum":
                return super().reduce(grads, reduction)
            super().reduce(grads, "sum")
            for id in grads:
                self._sharded[id].grad.div_(self._mesh.size())
            return {id: local_of(self._sharded[id].grad) for id in grads}


class _OneDimension:
    """What forms over one dimension share with `fsdp2`."""

    layouts = fsdp2.layouts
    promises = fsdp2.promises
    layout = staticmethod(layout)

    @staticmethod
    def policy(case: Any) -> tuple[str, str, str]:
        """As by default."""
        return policy(case)


class Resharded(_OneDimension):
    """`reshard_after_forward=True`: nothing whole is left after a forward, and a backward gathers again."""

    class Session(fsdp2.Session):
        """See `shardproof.protocol.Session`."""

        def reshard_after_forward(self) -> bool:
            """For the root as well, which by default keeps its parameters."""
            return True


class ReshardedInPart(_OneDimension):
    """`reshard_after_forward` as an int: after a forward, parameters are cut over groups of so many ranks.

    It is the smallest factor of the world size above 1; a prime has none below itself, which means True.
    """

    class Session(fsdp2.Session):
        """See `shardproof.protocol.Session`."""

        def register(self, specs: Sequence[Spec]) -> None:
            """Take back the process groups of what was registered before, which is done with on every rank."""
            while _made:
                dist.destroy_process_group(_made.pop())
            before = set(dist.distributed_c10d._world.pg_map)
            super().register(specs)
            _made.extend(set(dist.distributed_c10d._world.pg_map) - before)

        def reshard_after_forward(self) -> bool | int:
            """The group size."""
            size = self._mesh.size()
            return next((factor for factor in range(2, size) if size % factor == 0), True)


_made: list[dist.ProcessGroup] = []
