"""gloo: an all-gather of several dtypes in one coalescing block changes integers without a word."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.distributed_c10d import _coalescing_manager

EXPECTED = [[2**53 + 1] * 2] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    numbers, others = torch.tensor([2**53 + 1]), torch.ones(1, dtype=torch.float64)
    gathered = torch.empty(2, dtype=torch.int64), torch.empty(2, dtype=torch.float64)
    into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    with _coalescing_manager(async_ops=True) as work:
        into(gathered[0], numbers)
        into(gathered[1], others)
    work.wait()
    told.put((rank, gathered[0].tolist()))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
