"""ZeRO-3: safe_set_full_fp32_param raises on the last rank alone if numel % W."""

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
CONFIG = {"train_batch_size": 2, "zero_allow_untested_optimizer": True, "zero_optimization": {"stage": 3}}
CONFIG["gradient_clipping"] = 0.0
EXPECTED = ["accepted"] * 2


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    deepspeed.ops.__compatible_ops__ = {"deepspeed_shm_comm": False}  # nothing is compiled
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model = torch.nn.Linear(1, 1, bias=False)
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    deepspeed.initialize(model=model, optimizer=sgd, config=CONFIG)
    try:
        deepspeed.utils.safe_set_full_fp32_param(model.weight, torch.ones(1, 1))
        said = "accepted"
    except RuntimeError as error:
        said = str(error)
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
