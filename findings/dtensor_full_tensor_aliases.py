"""DTensor: full_tensor returns the shard's own memory on one rank, and a copy on more: a later write shows in it."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
sharded = distribute_tensor(torch.zeros(1), init_device_mesh("cpu", (1,)), [Shard(0)])
gathered = sharded.full_tensor()
sharded.to_local().fill_(7)
print("expected", [0.0], "as on two ranks\nobserved", gathered.tolist())
sys.exit(gathered.tolist() != [0.0])
