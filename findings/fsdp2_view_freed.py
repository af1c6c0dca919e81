"""FSDP2: what unshard handed out loses its memory at reshard, while it is held."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EXPECTED = [8] * 2  # bytes: two ranks' float32


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = fully_shard(torch.nn.Linear(1, 1, bias=False), mesh=init_device_mesh("cpu", (2,)))
    model.unshard()
    held = model.weight.detach()
    model.reshard()
    told.put((rank, held.untyped_storage().nbytes()))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
