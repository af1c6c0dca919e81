"""ZeroRedundancyOptimizer: a parameter with gaps gets other values on the ranks that do not step it."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.optim import ZeroRedundancyOptimizer

EXPECTED = [[-1.0, 1.0, 3.0]] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    parameter = torch.nn.Parameter(torch.arange(6.0)[::2])  # 0, 2, 4
    optimizer = ZeroRedundancyOptimizer([parameter], torch.optim.SGD, lr=1.0)
    parameter.grad = torch.ones(3)
    optimizer.step()
    told.put((rank, parameter.tolist()))
    dist.destroy_process_group()


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
