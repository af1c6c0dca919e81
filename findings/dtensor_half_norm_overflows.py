"""DTensor: clip_grad_norm_ of float16 gradients sets them to zero: squares of local norms are added in float16."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def clipped(parameter: torch.Tensor, gradient: torch.Tensor) -> list[float]:
    parameter.grad = gradient
    norm = torch.nn.utils.clip_grad_norm_([parameter], 3.0)
    return [norm.item(), *parameter.grad.tolist()]


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    mesh, whole = init_device_mesh("cpu", (2,)), torch.full((2,), 200, dtype=torch.float16)
    sharded = torch.nn.Parameter(distribute_tensor(torch.zeros_like(whole), mesh, [Shard(0)]))
    sharded.grad = distribute_tensor(whole, mesh, [Shard(0)])
    norm = torch.nn.utils.clip_grad_norm_([sharded], 3.0).full_tensor().item()
    told.put((rank, [norm, *sharded.grad.full_tensor().tolist()]))


if __name__ == "__main__":
    expected = clipped(torch.nn.Parameter(torch.zeros(2, dtype=torch.float16)), torch.full((2,), 200).half())
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {[expected] * 2} (norm, gradients)\nobserved {observed}")
    sys.exit(observed != [expected] * 2)
