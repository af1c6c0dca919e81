"""FSDP2 under tensor parallelism: a rank without columns gathers nothing at all, and the others wait for it."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

EXPECTED = [[2, 1]] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "tensor"))
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(distribute_tensor(torch.ones(2, 1), mesh["tensor"], [Shard(1)]))
    fully_shard(module, mesh=mesh["data"])
    try:
        said = list(module.weight.full_tensor().shape)
    except RuntimeError as error:  # rank 0 waits until rank 1 has ended
        said = str(error).splitlines()[0]
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted([told.get(), told.get()])]
    print(f"expected {EXPECTED} (shapes)\nobserved {observed}")
    sys.exit(observed != EXPECTED)
