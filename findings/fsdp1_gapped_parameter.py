"""FSDP1: a parameter with gaps between its elements comes back with its neighbour's values in them."""

import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

warnings.simplefilter("ignore")  # of one rank, and of a wrapper that is going to be retired
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
module = torch.nn.Module()
module.gapped = torch.nn.Parameter(torch.arange(4.0)[::2])
module.other = torch.nn.Parameter(torch.full((3,), 7.0))
expected = module.gapped.tolist()
wrapped = FullyShardedDataParallel(module, device_id=torch.device("cpu"))
with FullyShardedDataParallel.summon_full_params(wrapped):
    observed = wrapped.module.gapped.tolist()
print(f"expected {expected}\nobserved {observed}")
sys.exit(observed != expected)
