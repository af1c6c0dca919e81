"""FSDP1: a unit whose only parameter has no elements cannot be wrapped."""

import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

EXPECTED = "wrapped"

if __name__ == "__main__":
    dist.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
    try:
        FullyShardedDataParallel(nn.ParameterList([torch.ones(0)]), device_id=torch.device("cpu"))
        observed = EXPECTED
    except AssertionError as error:
        observed = f"AssertionError: {error}"
    print(f"expected {EXPECTED}\nobserved {observed}")
    sys.exit(observed != EXPECTED)
