"""How a rank joins the others: threads, device, backend, default group."""

from __future__ import annotations

import ctypes
import os

from shardproof.errors import CouldNotJudge
from shardproof.ranks.birth import Birth, store_file

_SHARING = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_NVLS_ENABLE": "0"}
_SHARING_SINCE = (2, 30)


def join(birth: Birth) -> str:
    """Make the default group; this rank's device. Raises CouldNotJudge where the machine cannot do it."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore  # dist has it too, but does not export it by its types

    torch.set_num_threads(1)
    device = _claim_gpu(birth) if birth.device == "cuda" else birth.device
    dist.init_process_group(
        "nccl" if birth.device == "cuda" else "gloo",
        store=FileStore(str(store_file(birth.directory)), birth.world_size),
        rank=birth.rank,
        world_size=birth.world_size,
    )
    if birth.device == "cuda":  # NCCL connects in the first collective, which may take longer than a run has
        dist.all_reduce(torch.zeros(1, device=device))
        torch.cuda.synchronize()
    return device


def _claim_gpu(birth: Birth) -> str:
    import torch
    import torch.distributed as dist

    if not torch.cuda.is_available():
        raise CouldNotJudge("torch finds no CUDA device here")
    if not dist.is_nccl_available():
        raise CouldNotJudge("this torch was built without NCCL")
    count = torch.cuda.device_count()
    if birth.world_size > count:
        _share(birth.world_size, count, loaded_nccl())
    torch.cuda.set_device(birth.rank % count)
    return f"cuda:{birth.rank % count}"


def loaded_nccl() -> tuple[int, ...]:
    """The version of the NCCL that is loaded; torch tells the one it was built with even where another is preloaded."""
    code = ctypes.c_int()
    ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(code))
    return code.value // 10000, code.value // 100 % 100, code.value % 100


def _share(world_size: int, count: int, version: tuple[int, ...]) -> None:
    """Let several ranks use one GPU, which NCCL can since 2.30."""
    if version < _SHARING_SINCE:
        have, need = (".".join(map(str, number)) for number in (version, _SHARING_SINCE))
        raise CouldNotJudge(
            f"{world_size} ranks on {count} CUDA devices need NCCL {need} or newer to share one; this is NCCL {have}"
        )
    os.environ.update(_SHARING)
