"""FSDP2 on CUDA: gathering a module of empty parameters ends the process by SIGFPE, at two ranks and more."""

import subprocess
import sys

import torch

# One rank of two whose peer is imagined: what fails is a copy on this rank's own device.
CODE = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
module = torch.nn.Module()
module.w = torch.nn.Parameter(torch.empty(0, device="cuda"))
fully_shard(module, mesh=init_device_mesh("cuda", (2,))).unshard()
torch.cuda.synchronize()
"""

if not torch.cuda.is_available():
    print("could not judge: this needs a CUDA device")
    sys.exit(2)
done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
print("expected 0\nobserved", done.returncode, done.stderr.strip().rpartition("\n")[2])
sys.exit(done.returncode != 0)
