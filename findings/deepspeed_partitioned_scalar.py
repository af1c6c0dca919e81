"""PartitionedTensor cannot put a tensor without dimensions together again."""

import os
import sys
import tempfile

import torch
import torch.multiprocessing as mp

os.environ |= {"DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0", "LOCAL_SIZE": "2"}
try:
    import deepspeed
except ImportError as error:
    print(f"could not judge: {error} (pip install deepspeed)")
    sys.exit(2)
EXPECTED = ["7.0"] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    deepspeed.ops.__compatible_ops__ = {"deepspeed_shm_comm": False}  # nothing is compiled
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    from deepspeed.runtime.utils import PartitionedTensor

    deepspeed.init_distributed("gloo")
    try:
        said = str(PartitionedTensor(torch.tensor(7.0), deepspeed.comm.get_world_group()).full().item())
    except TypeError as error:
        said = str(error)
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
