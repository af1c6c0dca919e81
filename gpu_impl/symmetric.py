"""A gather by copies out of the other ranks' memory, in place of a collective.

Every rank has a workspace that the others can read (`torch.distributed._symmetric_memory`: over NVLink on one host).
A gather puts the shard there, waits for all ranks to have done so, copies every part from where it lies, and waits
again, so that nobody overwrites what another still reads. Copies start at the rank's own part and go round, so that no
two ranks read from the same one at the same time. DeepSpeed PR 7489 keeps such a path beside NCCL.

Ranks that share a GPU, or that are on several hosts, cannot map each other's memory: they are refused on every rank.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

import torch
import torch.distributed as dist

from gpu_impl.errors import RefusedError
from gpu_impl.exchange import exchange, on_ranks

_BARRIER_MILLISECONDS = 60_000
_INSTEAD = "open the session without symmetric_memory: NCCL serves every case"


class Handle(Protocol):
    """What `rendezvous` returns: every rank's workspace, and a barrier in the order of the current stream."""

    def get_buffer(self, rank: int, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """The beginning of that rank's workspace as a tensor."""

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """What was queued before it on every rank is done before what is queued after it on any."""


def _made(group: dist.ProcessGroup, device: torch.device, nbytes: int) -> tuple[Any, Handle]:
    """Memory that every rank of the group maps. Private in torch, which has no other way to it."""
    from torch.distributed import _symmetric_memory

    memory = _symmetric_memory.empty(nbytes, dtype=torch.uint8, device=device)
    handle: Any = _symmetric_memory.rendezvous(memory, group)
    return memory, handle


@dataclass(slots=True)
class Symmetric:
    """One rank's side of a workspace of `nbytes` on every rank; `handle` is None until something is registered."""

    group: dist.ProcessGroup
    device: torch.device
    nbytes: int = 0
    handle: Handle | None = None
    memory: Any = None
    make: Callable[[dist.ProcessGroup, torch.device, int], tuple[Any, Handle]] = _made

    def reserve(self, nbytes: int) -> None:
        """Have room for a shard of so many bytes; every rank asks for the same."""
        if nbytes > self.nbytes:
            self.memory, self.handle = self.make(self.group, self.device, nbytes)
            self.nbytes = nbytes

    def gather(self, receive: torch.Tensor, send: torch.Tensor) -> None:
        """Concatenate every rank's `send` (1-D, p elements) in `receive` (W*p), in the order of the current stream."""
        handle, rank, world_size, length = self.handle, self.group.rank(), self.group.size(), send.numel()
        assert handle is not None  # `reserve` came before: at registration
        handle.get_buffer(rank, (length,), send.dtype).copy_(send)
        handle.barrier(0, _BARRIER_MILLISECONDS)
        for step in range(world_size):
            source = (rank + step) % world_size
            part = receive[source * length : (source + 1) * length]
            part.copy_(handle.get_buffer(source, (length,), send.dtype))
        handle.barrier(0, _BARRIER_MILLISECONDS)


def open_symmetric(group: dist.ProcessGroup, device: torch.device) -> Symmetric:
    """Raises RefusedError, on every rank, where some ranks cannot read each other's memory."""
    objection, place = _place(device)
    said = exchange(f"{objection}\n{place}\n{group.rank()}", objects=True, group=group, device=device)
    assert said is not None  # every rank objects, so that everybody hears what everybody says
    told = [text.split("\n") for _, text in said]
    refusal = refused([(objection, place) for objection, place, _ in told])
    if refusal:
        raise RefusedError(f"symmetric memory: {refusal}; {_INSTEAD}")
    return Symmetric(group, device)


def refused(told: Sequence[tuple[str, str]]) -> str:
    """Why these ranks cannot, "" where they can: of each its objection and its place ("host/GPU")."""
    objecting = [rank for rank, (objection, _) in enumerate(told) if objection]
    if objecting:
        return f"{told[objecting[0]][0]} on {on_ranks(objecting)}"
    hosts: dict[str, list[int]] = {}
    places: dict[str, list[int]] = {}
    for rank, (_, place) in enumerate(told):
        hosts.setdefault(place.partition("/")[0], []).append(rank)
        places.setdefault(place, []).append(rank)
    if len(hosts) > 1:
        return "ranks are on several hosts: " + ", and ".join(on_ranks(ranks) for ranks in hosts.values())
    shared = next((ranks for ranks in places.values() if len(ranks) > 1), None)
    return f"{on_ranks(shared)} share a GPU, expected one a rank" if shared else ""


def _place(device: torch.device) -> tuple[str, str]:
    """What this rank has against it, and where it is."""
    if device.type != "cuda":
        return f"the device is {device}, expected cuda", ""
    host = blake2b(socket.gethostname().encode(), digest_size=8).hexdigest()
    return "", f"{host}/{torch.cuda.get_device_properties(device).uuid}"
