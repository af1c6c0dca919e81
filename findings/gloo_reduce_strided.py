"""gloo: reduce to a rank takes a column for the memory from its first element on, and overwrites its neighbours."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

EXPECTED = [[[2.0, 10.0], [4.0, 20.0]], [[1.0, 10.0], [2.0, 20.0]]]


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    matrix = torch.tensor([[1.0, 10.0], [2.0, 20.0]])
    dist.reduce(matrix[:, 0], 0)
    told.put((rank, matrix.tolist()))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
