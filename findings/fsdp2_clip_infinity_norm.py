"""FSDP2: clip_grad_norm_ by the infinity norm raises where a rank holds no element of a gradient."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EXPECTED = [1.0] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = fully_shard(torch.nn.Linear(1, 1, bias=False), mesh=init_device_mesh("cpu", (2,)))
    model(torch.ones(1, 1)).sum().backward()

    try:
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type=float("inf"))
        said = norm.full_tensor().item()
    except RuntimeError as error:
        said = str(error).splitlines()[0]
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
