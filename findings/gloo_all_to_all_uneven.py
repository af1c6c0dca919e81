"""gloo: all_to_all_single of a length that the world size does not divide returns memory that nobody wrote."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

EXPECTED = ["refused"] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    received = torch.zeros(3)
    try:
        dist.all_to_all_single(received, torch.arange(3.0) + 10 * rank)
        said = f"accepted: {received.tolist()}"
    except RuntimeError:
        said = "refused"
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
