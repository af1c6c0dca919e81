"""FSDP1: a sharded state dict of a transposed parameter raises on ranks whose rows have gaps, and on no other."""

import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel

CPU, EXPECTED = torch.device("cpu"), ["done"] * 2
warnings.simplefilter("ignore")  # of a wrapper that is going to be retired


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    module = torch.nn.Module()
    module.transposed = torch.nn.Parameter(torch.ones(2, 3).t())
    wrapped = FullyShardedDataParallel(module, device_id=CPU)
    try:
        get_model_state_dict(wrapped)
        said = "done"
    except ValueError as error:
        said = str(error).splitlines()[0]
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted([told.get(), told.get()])]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
