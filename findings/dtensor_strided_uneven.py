"""DTensor: full_tensor of uneven strided shards raises on one rank while the others wait."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

EXPECTED = [list(range(7))] * 6


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=6)
    placements = [_StridedShard(0, split_factor=2), Shard(0)]
    sharded = distribute_tensor(torch.arange(7), init_device_mesh("cpu", (3, 2)), placements, src_data_rank=None)
    try:
        said = sharded.full_tensor().tolist()
    except RuntimeError as error:  # rank 5; the others wait for it until it has ended
        said = str(error).splitlines()[0]
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=6, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(6))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
