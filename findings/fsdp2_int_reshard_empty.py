"""FSDP2: with reshard_after_forward as an int, an empty parameter sharded along its second dim cannot be used."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard

EXPECTED = [["no error"] * 2] * 4


class Sum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.empty(3, 0))

    def forward(self) -> torch.Tensor:
        return self.w.sum()


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=4)
    seen, mesh = [], init_device_mesh("cpu", (4,))
    for group in (True, 2):
        model = fully_shard(Sum(), mesh=mesh, reshard_after_forward=group, shard_placement_fn=lambda _: Shard(1))
        try:
            for _ in range(2):
                model()
            seen.append("no error")
        except Exception as error:
            seen.append(str(error).splitlines()[0])
    told.put((rank, seen))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=4, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(4))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
