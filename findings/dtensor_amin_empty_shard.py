"""DTensor: amin raises on the rank that holds no element, and nowhere else."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

EXPECTED = [1.0] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    whole = distribute_tensor(torch.ones(1), init_device_mesh("cpu", (2,)), [Shard(0)])

    try:
        found = whole.amin()
        said = found.full_tensor().item()
    except RuntimeError as error:
        said = str(error).splitlines()[0]
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
