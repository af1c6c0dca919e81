"""gpu_impl gathering through symmetric memory, where the memory that all ranks map is a file each, on a CPU.

An implementation in its own right, so that every law is judged of the path that needs several GPUs otherwise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import gpu_impl
from gpu_impl import alignments, layout, layouts, shard
from gpu_impl.symmetric import Symmetric

__all__ = ["Session", "alignments", "layout", "layouts", "promises", "shard"]

# Nothing is received into by a collective, and every gather copies between two barriers.
promises = ("view-outlives-release", "buffer-reused")


class Files:
    """Every rank's workspace mapped from a file, and a barrier of gloo's."""

    def __init__(self, group: dist.ProcessGroup, nbytes: int) -> None:
        folder = [tempfile.mkdtemp() if group.rank() == 0 else ""]
        dist.broadcast_object_list(folder, dist.get_global_rank(group, 0), group)
        self.group, paths = group, [Path(folder[0], str(rank)) for rank in range(group.size())]
        paths[group.rank()].write_bytes(bytes(nbytes))
        dist.barrier(group)
        self.workspaces = [torch.from_file(str(path), shared=True, size=nbytes, dtype=torch.uint8) for path in paths]
        dist.barrier(group)
        paths[group.rank()].unlink()
        dist.barrier(group)
        if group.rank() == 0:
            paths[0].parent.rmdir()

    def get_buffer(self, rank: int, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        (length,) = sizes
        return self.workspaces[rank][: length * dtype.itemsize].view(dtype)

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:  # noqa: ARG002  # torch has both
        dist.barrier(self.group)


def made(group: dist.ProcessGroup, device: torch.device, nbytes: int) -> tuple[Any, Files]:
    return None, Files(group, nbytes)


class Session(gpu_impl.Session):
    """As if it had been opened with `symmetric_memory`."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
        super().__init__(group, device, layout)
        self._state.symmetric = Symmetric(group, device, make=made)
