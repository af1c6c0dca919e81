"""FSDP2: a parameter of shape (0, 1) sharded along its second dimension is accepted, and cannot be gathered."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard

EXPECTED = [(0, 1)]


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=1)
    module = torch.nn.Module()
    module.w = torch.nn.Parameter(torch.empty(0, 1))
    sharded = fully_shard(module, mesh=init_device_mesh("cpu", (1,)), shard_placement_fn=lambda _: Shard(1))

    try:
        sharded.unshard()
        said = tuple(module.w.shape)
    except Exception as error:
        said = str(error).splitlines()[0]
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=1, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(1))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
