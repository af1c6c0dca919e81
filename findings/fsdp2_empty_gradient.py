"""FSDP2: a backward through a parameter without elements raises."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Sum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.empty(0))

    def forward(self) -> torch.Tensor:
        return self.w.sum()


EXPECTED = ["no error"] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = fully_shard(Sum(), mesh=init_device_mesh("cpu", (2,)))

    try:
        model().backward()
        said = "no error"
    except Exception as error:
        said = str(error).splitlines()[0]
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
