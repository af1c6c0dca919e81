"""FSDP2 under tensor parallelism: a checkpoint of 7 rows, loaded on the mesh that saved it, lacks the last one."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

EXPECTED = [list(range(1, 8))] * 6


def on_rank(rank: int, folder: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=6)
    mesh = init_device_mesh("cpu", (3, 2), mesh_dim_names=("data", "tensor"))

    def sharded(whole: torch.Tensor) -> torch.Tensor:
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(distribute_tensor(whole, mesh["tensor"], [Shard(0)]))
        return fully_shard(module, mesh=mesh["data"]).weight

    dcp.save({"weight": sharded(torch.arange(1.0, 8.0))}, checkpoint_id=f"{folder}/saved")
    loaded = sharded(torch.zeros(7))
    dcp.load({"weight": loaded}, checkpoint_id=f"{folder}/saved")
    told.put((rank, loaded.full_tensor().tolist()))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(on_rank, (folder, told), nprocs=6, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(6))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
