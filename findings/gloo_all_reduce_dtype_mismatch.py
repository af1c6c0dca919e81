"""gloo: ranks that add up different dtypes of one size get each other's bits, or nothing added."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

EXPECTED = ["refused"] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    own = torch.ones(2, dtype=(torch.int32, torch.float32)[rank])
    try:
        dist.all_reduce(own)
        said = f"accepted: {own.tolist()}"
    except RuntimeError:
        said = "refused"
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
