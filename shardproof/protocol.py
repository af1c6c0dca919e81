"""What the harness asks of an implementation. Nothing here is imported by one: it is recognised by what is there.

Two forms:

- functions: `shard(full, rank, world_size) -> Tensor` and `gather(shard, shape, group) -> Tensor`, and optionally
  any of `layout(shape, rank, world_size)`, `reduce(grad, group) -> Tensor` (this rank's shard of the sum). What a
  layout other than flat padded depends on comes to `shard` and `layout` by name (see write-an-implementation.md).
- session: an attribute `Session`, a class whose instances live for one case on one rank; see `Session` below.
  The optional module-level functions `shard` and `layout` are taken from the implementation itself.

Plain attributes, all optional:

    promises             slugs of promise laws that apply
    layouts              layout kinds it implements, default ("flat_padded",)
    alignments           shard alignments it implements, default (1,)
    specs                the only layouts it implements, mappings such as {"kind": "bucket", "bucket_alignment": 128}
    policy(case)         "accept", "refuse" or "unspecified", or (that, reason, link)
    needs_default_group  True where it must run in the default process group (a pool per world size)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist


class Spec(Protocol):
    """One parameter as a session is given it at registration.

    `full` is the whole parameter, the same bits on every rank; it may be strided or start inside its storage.
    `shard` is what the implementation's own `shard` returned for this rank (None where it offers none), in memory
    of its own. `grad` is what lies in the gradient's place: full-size, shard-size, or None. `tied_to` names the
    parameter whose memory this one shares.
    """

    id: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    full: torch.Tensor
    shard: torch.Tensor | None
    grad: torch.Tensor | None
    requires_grad: bool
    tied_to: str | None
    comm_dtype: torch.dtype | None


class Session(Protocol):
    """The stateful form. Only `register` and `gather` are required; the rest is offered by being there.

    Looked at beside the methods: `read(path)`, the whole parameters in a saved file by id; `scalars`, a mapping of
    0-dim state that `save` writes and `load` restores, numbers and 0-dim tensors, each as it was (where the mapping can
    be written to, the harness puts some of its own in); `counters`, a mapping of what the last `reduce` counted;
    `profile()`, a context manager that gives a list, filled with a record of each operation when it ends.
    """

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
        """`layout` is the case's layout as a plain mapping, for this group's world size: kind, alignment, dim, ...

        Where parameters share buckets, those of one dtype that are registered together, tied ones once, lie in one
        buffer in their order.
        """

    def register(self, specs: Sequence[Spec]) -> None:
        """Take the parameters, or raise on every rank."""

    def shard(self, id: str) -> torch.Tensor:
        """What this rank stores of the parameter, padding included where the layout has any."""

    def gather(self, id: str) -> torch.Tensor:
        """The whole parameter in its true shape, complete on return."""

    def prefetch(self, ids: Sequence[str]) -> None:
        """Start gathering; returns at once."""

    def wait(self, id: str) -> torch.Tensor:
        """The prefetched parameter, complete on return."""

    def available(self, id: str) -> bool:
        """Whether the parameter can be used now."""

    def invalidate(self, id: str) -> None:
        """What was gathered is stale from now on; the next gather communicates."""

    def release(self, id: str) -> None:
        """The gathered parameter is not needed any more."""

    def trim(self) -> None:
        """Give all memory kept for reuse back."""

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Replace this rank's shard by new contents of the same length."""

    def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
        """Add full-size local gradients to what the next reduce sends."""

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """This rank's shard of the reduced ("sum" or "mean") gradients, accumulated ones included."""

    def norm(self) -> float:
        """The 2-norm of all gradients reduced last, over all ranks, padding excluded."""

    def save(self, path: str) -> None:
        """Write all parameters in their logical shapes; every rank calls it, the file is complete on return."""

    def load(self, path: str) -> None:
        """Read what `save` wrote, at whatever world size that was."""

    def forward(self, value: int) -> float:
        """Run this model, in float64, on the input that `value` seeds; its loss, summed over ranks, on every rank.

        On rank r element i (row-major) of every parameter w of real floating numbers, frozen ones and each tied id
        included, meets x = (i + 3 r + 5 value) mod 7 - 3. The loss is the sum of w x + w w / 2.
        """

    def backward(self) -> Mapping[str, torch.Tensor] | None:
        """Gradients of the last forward in each parameter's dtype, summed over ranks with what was accumulated.

        So for a parameter the sum over ranks of w + x, once for each id it goes by. Frozen parameters get none. They
        stand where `reduce` leaves its gradients. What is returned (nothing need be) is judged: this rank's shards by
        the ids that parameters were registered under first, as `reduce` returns them.
        """

    def clip(self, bound: float) -> float:
        """Scale the gradients reduced last by bound / norm where their 2-norm is above the bound; the norm before."""

    def step(self, learning_rate: float) -> None:
        """A plain optimizer step for what was reduced last: weight -= learning_rate * gradient, rounded once.

        Gradients stay. The next gather shows the new weights, a save holds them, and training goes on from them after
        a load at another world size. The learning rate is a power of two.
        """


FUNCTIONS = ("shard", "layout", "gather", "reduce")
SESSION = tuple(name for name, value in vars(Session).items() if callable(value) and not name.startswith("_"))
