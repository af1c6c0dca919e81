"""gloo: reduce_scatter into a column writes the memory from its first element on, and with the wrong values."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

EXPECTED = [[[2.0, 0.0], [4.0, 0.0]]] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    matrix = torch.zeros(2, 2)
    dist.reduce_scatter(matrix[:, 0], [torch.tensor([1.0, 2.0])] * 2)
    told.put((rank, matrix.tolist()))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
