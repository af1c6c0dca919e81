"""reduce_scatter_coalesced divides its input in place where one numel is divisible by W."""

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
EXPECTED = [{1: [1.0], 2: [1.0, 1.0], 3: [1.0, 1.0, 1.0]}] * 2  # the input after the call, by numel


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    deepspeed.ops.__compatible_ops__ = {"deepspeed_shm_comm": False}  # nothing is compiled
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    from deepspeed.runtime.comm.coalesced_collectives import reduce_scatter_coalesced

    deepspeed.init_distributed("gloo")
    grads = {numel: torch.ones(numel) for numel in (1, 2, 3)}
    for grad in grads.values():
        reduce_scatter_coalesced([grad])
    told.put((rank, {numel: grad.tolist() for numel, grad in grads.items()}))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
