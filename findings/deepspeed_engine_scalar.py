"""deepspeed.initialize refuses a model with a parameter without dimensions, at every stage."""

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
EXPECTED = [["accepted"] * 4] * 2  # stages 0 to 3


def on_rank(rank: int, store: str, told: mp.SimpleQueue) -> None:
    deepspeed.ops.__compatible_ops__ = {"deepspeed_shm_comm": False}  # nothing is compiled
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    said = []
    for stage in range(4):
        model = torch.nn.ParameterList([torch.nn.Parameter(torch.tensor(1.0))])
        config = {"train_batch_size": 2, "zero_allow_untested_optimizer": True, "zero_optimization": {"stage": stage}}
        try:
            deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters()), config=config)
            said.append("accepted")
        except RuntimeError as error:
            said.append(str(error))
    told.put((rank, said))


if __name__ == "__main__":
    told = mp.get_context("fork").SimpleQueue()
    mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}", told), nprocs=2, start_method="fork")
    observed = [answer for _, answer in sorted(told.get() for _ in range(2))]
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
