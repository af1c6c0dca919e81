"""ZeRO-3 steps a parameter that the pass did not use with its last gradient."""

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
EXPECTED = [0.0, 0.0]  # how far the bias moves in a step that does not use it


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    deepspeed.ops.__compatible_ops__ = {"deepspeed_shm_comm": False}  # nothing is compiled
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    model, seen = torch.nn.Linear(1, 1), []
    model.forward = lambda with_bias: model.weight.sum() + (model.bias.sum() if with_bias else 0)
    engine = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), config=CONFIG)[0]
    for used in (True, False):
        engine.backward(engine(used))
        engine.step()
        with deepspeed.zero.GatheredParameters([model.bias]):
            seen.append(model.bias.item())
    told.put((rank, seen[0] - seen[1]))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
