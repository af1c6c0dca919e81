"""The front of it all: one rank's session over a process group. What happens is told where it is done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from gpu_impl import checkpoint, gathering, reducing, registration, training
from gpu_impl.buffers import POOL_BYTES
from gpu_impl.gathering import Handle
from gpu_impl.parameters import Spec
from gpu_impl.profile import Profiler, Record, recorded
from gpu_impl.state import open_state


class Session:
    """Parameters cut over the ranks of `group`, gathered, reduced, stepped, saved and loaded.

    Every rank makes the same calls in the same order, from one thread. `register`, `save` and `load` refuse on every
    rank or on none. Any other call with wrong arguments raises before it communicates, on the rank that made it.

    Gathered views. A gather of a valid parameter communicates nothing and returns another view of the same buffer.
    After an update, step, load or invalidate the next gather communicates: into the same buffer where nobody holds a
    view of it any more, into another one where somebody does. So a view never changes once it was returned, neither
    when its parameter is gathered again nor after its release; it keeps its memory for as long as it is held.

    Tied ids are names of one parameter: one shard, one buffer, one gradient, and released together.

    Dtypes. A gather carries the parameter's own bits whatever `comm_dtype` says; dtypes that the backend has no name
    for travel as bytes. `comm_dtype` is for gradients: they are added up in their own dtype, sent in `comm_dtype`
    (their own where None), and come back in their own. Narrow integers and 8-bit floats, in which no backend adds,
    are widened on the way.

    `session.shard(id)` may be written to in place; call `invalidate(id)` after that.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        device: torch.device,
        layout: Mapping[str, Any] | None = None,
        *,
        pool_bytes: int = POOL_BYTES,
        symmetric_memory: bool = False,
    ) -> None:
        """`layout`: kind "flat_padded" and alignment. At most `pool_bytes` are kept for reuse after release.

        `symmetric_memory`: gathers are copies out of the other ranks' memory (`gpu_impl.symmetric`); every rank says
        the same. Raises RefusedError, on every rank, where ranks share a GPU or are on several hosts or on the CPU.
        """
        self._state = open_state(group, device, layout or {}, pool_bytes, symmetric=symmetric_memory)
        self.profiler: Profiler | None = None

    @recorded
    def register(self, specs: Iterable[Spec]) -> None:
        """Take parameters, beside those already there, or raise RegistrationError on every rank and take none.

        One exchange for all of them. Ids, their order, shapes, dtypes, shard and padded lengths, and all else that
        later collectives depend on must be the same on every rank. An id can be registered once.
        """
        registration.register(self._state, specs)

    def shard(self, id: str) -> torch.Tensor:
        """What this rank stores: 1-D, p elements, padding included; the session's own memory."""
        return self._state.find(id).shard

    @recorded
    def gather(self, id: str) -> torch.Tensor:
        """The whole parameter in its true shape, a view of its buffer, complete on return (on the current stream)."""
        return gathering.gather(self._state, id)

    @recorded
    def prefetch(self, ids: Iterable[str]) -> Handle:
        """Start gathering as one collective and return at once; `wait`, `gather` or the handle complete it.

        Whatever needs a parameter that is under way (update, release, ...) completes it first.
        """
        return gathering.prefetch(self._state, ids)

    @recorded
    def wait(self, id: str) -> torch.Tensor:
        """The prefetched parameter, complete; gathers it where that was not started or has become stale."""
        return gathering.gather(self._state, id)

    def available(self, id: str) -> bool:
        """Whether the parameter is gathered, complete and not stale."""
        return self._state.find(id).valid

    @recorded
    def invalidate(self, id: str) -> None:
        """What was gathered is stale from now on."""
        gathering.invalidate(self._state, self._state.find(id))

    @recorded
    def release(self, id: str) -> None:
        """The gathered parameter is not needed any more; its buffer waits in the pool unless a view is held."""
        gathering.release(self._state, id)

    @recorded
    def persist(self, ids: Iterable[str], *, keep: bool = True) -> None:
        """From now on `release` leaves these parameters gathered; `keep=False` ends that."""
        gathering.persist(self._state, ids, keep)

    @recorded
    def trim(self) -> None:
        """Give up all memory kept for reuse; `held_bytes` is 0 after it."""
        gathering.trim(self._state)

    @property
    def held_bytes(self) -> int:
        """Bytes kept for reuse only."""
        return gathering.held_bytes(self._state)

    @property
    def live_bytes(self) -> int:
        """Bytes of buffers in use: gathered parameters and gradients added up."""
        return self._state.pool.live_bytes

    @recorded
    def update(self, id: str, shard: torch.Tensor) -> None:
        """Copy new contents of the same length and dtype into this rank's shard."""
        gathering.update(self._state, id, shard)

    @recorded
    def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
        """Add full-size local gradients to what the next reduce sends; `grads` are only read."""
        reducing.accumulate(self._state, grads)

    @recorded
    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str = "sum") -> Mapping[str, torch.Tensor]:
        """This rank's shards of the gradients' "sum" or "mean" over ranks, accumulated ones included, padding zero.

        Names the parameters of `grads`, or all with accumulated gradients where it is empty.
        """
        return reducing.reduce(self._state, grads, reduction)

    @property
    def counters(self) -> dict[str, int]:
        """What the last reduction sent from this rank: "parameters", "elements" with padding, "bytes"; empty before."""
        return dict(self._state.counters)

    @recorded
    def norm(self) -> float:
        """The 2-norm of the gradients reduced last, over all ranks; the host waits for it."""
        return reducing.norm(self._state)

    @recorded
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all parameters in their true shapes, and the scalars; complete on return on every rank."""
        checkpoint.save(self._state, path)

    @recorded
    def load(self, path: str | os.PathLike[str]) -> None:
        """Read what `save` wrote, at whatever world size."""
        checkpoint.load(self._state, path)

    def read(self, path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
        """The whole parameters in a file that `save` wrote, on the CPU; needs no other rank."""
        return checkpoint.read(path)

    @property
    def scalars(self) -> dict[str, torch.Tensor | float | int]:
        """0-dim values that `save` writes (rank 0's) and `load` restores untouched; "steps" counts steps."""
        return self._state.scalars

    @recorded
    def forward(self, value: int) -> float:
        """Run the model of `training` on the input that `value` seeds; its loss, summed over ranks."""
        return training.forward(self._state, value)

    @recorded
    def backward(self) -> Mapping[str, torch.Tensor]:
        """Gradients of the last forward, this rank's shards of the sum; `clip`, `norm` and `step` work on them."""
        return training.backward(self._state)

    @recorded
    def clip(self, bound: float) -> float:
        """Scale the reduced gradients to at most this 2-norm; the norm before."""
        return training.clip(self._state, bound)

    @recorded
    def step(self, learning_rate: float) -> None:
        """shard -= learning_rate * reduced gradient; what was gathered of these parameters is stale."""
        training.step(self._state, learning_rate)

    @contextmanager
    def profile(self) -> Iterator[list[Record]]:
        """Collect a record of every operation inside the block; the list is filled when the block ends.

        On CUDA every operation sets the allocator's peak statistics back.
        """
        records: list[Record] = []
        profiler = self.profiler = Profiler(self._state.pool, self._state.place.device)
        try:
            yield records
        finally:
            self.profiler = None
            records.extend(profiler.records())
