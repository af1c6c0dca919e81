"""FSDP2: what is written to the shards between an asynchronous unshard and its wait is not seen."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EXPECTED = [[7.0, 7.0]] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = fully_shard(torch.nn.Linear(1, 2, bias=False), mesh=init_device_mesh("cpu", (2,)))
    shard = model.weight.to_local()
    handle = model.unshard(async_op=True)
    with torch.no_grad():
        shard.fill_(7.0)
    handle.wait()
    told.put((rank, model.weight.flatten().tolist()))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
