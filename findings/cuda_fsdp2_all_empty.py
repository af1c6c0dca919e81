"""FSDP2 on CUDA: gathering a module whose parameters are all empty ends the process by SIGFPE, at two ranks and more."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

if not torch.cuda.is_available():
    print("could not judge: this needs a CUDA device")
    sys.exit(2)
child = os.fork()
if not child:
    # One rank of two whose peer is imagined: what fails is a copy on this rank's own device.
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    module = torch.nn.Module()
    module.w = torch.nn.Parameter(torch.empty(0, device="cuda"))
    fully_shard(module, mesh=init_device_mesh("cuda", (2,))).unshard()
    torch.cuda.synchronize()
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("expected 0\nobserved", status, "(a negative number is the signal that ended the process)")
sys.exit(status != 0)
