"""FSDP2: where a shard group has one rank, a gradient divide factor is divided by twice."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EXPECTED = [[8.0, 8.0]] * 2  # 16 from each of two ranks, divided by 4


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    seen = []
    for shape in ((1, 2), (2, 1)):  # (replicate, shard): the first is right
        model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
        fully_shard(model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")))
        model.set_gradient_divide_factor(4.0)
        model(torch.full((1, 1), 16.0, dtype=torch.float64)).backward()
        seen.append(model.weight.grad.full_tensor().item())
    told.put((rank, seen))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
