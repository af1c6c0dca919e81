"""FSDP1: clip_grad_norm_ of float64 gradients raises, with use_orig_params only on ranks that hold elements."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import FullyShardedDataParallel

CPU, EXPECTED = torch.device("cpu"), [2.0] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    module = FullyShardedDataParallel(
        torch.nn.Linear(1, 1, bias=False, dtype=torch.float64), device_id=CPU, use_orig_params=True
    )
    module(torch.full((1, 1), 2.0, dtype=torch.float64)).backward()
    try:
        said = module.clip_grad_norm_(1.0).item()
    except RuntimeError as error:  # rank 1 waits for rank 0 until that has ended
        said = str(error).splitlines()[0]
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted([told.get(), told.get()])]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
