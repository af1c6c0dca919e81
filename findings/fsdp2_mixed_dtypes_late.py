"""FSDP2: parameters of two dtypes in one module are refused when they are first gathered, not by fully_shard."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EXPECTED = ["refused by fully_shard"] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    module = torch.nn.Module()
    module.a = torch.nn.Parameter(torch.ones(2))
    module.b = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    said = "refused by fully_shard"
    try:
        sharded = fully_shard(module, mesh=init_device_mesh("cpu", (2,)))
        said = "refused by unshard"
        sharded.unshard()
    except AssertionError as error:
        said += f": {error}"
    told.put((rank, said.partition(":")[0]))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
