"""FSDP1: a unit that is used under no_sync, and not in the backward that synchronises, makes that backward raise."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

CPU, EXPECTED = torch.device("cpu"), ["done"] * 2


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(FullyShardedDataParallel(nn.Linear(1, 1), device_id=CPU) for _ in range(2))

    def forward(self, used: int) -> torch.Tensor:
        return sum(layer(torch.ones(1)) for layer in self.layers[:used])


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = FullyShardedDataParallel(Model(), device_id=CPU)
    with model.no_sync():
        model(2).backward()
    try:
        told.put((rank, model(1).backward() or "done"))
    except AssertionError as error:
        told.put((rank, str(error)))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted([told.get(), told.get()])]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
