"""FSDP2, HSDP: what is reduced without all-reduce is added to another parameter, where the next backward uses that."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EXPECTED = [{"a": 1.0, "b": 10.0}] * 2


class Either(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))

    def forward(self, name: str, x: float) -> torch.Tensor:
        return getattr(self, name).sum() * x


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = fully_shard(Either(), mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard")))
    model.set_force_sum_reduction_for_comms(True)  # gloo has no average
    for name, x, last in (("a", 1.0, False), ("b", 10.0, True)):
        model.set_requires_all_reduce(last)
        model(name, x).backward()
    told.put((rank, {name: p.grad and p.grad.full_tensor().item() for name, p in model.named_parameters()}))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted((told.get() for _ in range(2)), key=lambda pair: pair[0])]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
