"""DeepCompile ZeRO-3: registration accepts a shape that is another one on each rank."""

import sys
import tempfile
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.multiprocessing import start_processes

try:
    from deepspeed.ops.op_builder import DeepCompileBuilder
except ImportError:
    DeepCompileBuilder = None
SWITCHES = (
    "double_buffer symmetric_memory sync_before_reduce sync_after_reduce sync_before_allgather sync_after_allgather"
)
SETTINGS = dict.fromkeys([*SWITCHES.split(), "offload_activation_pin_memory"], False)


def on_rank(rank: int, store: str) -> None:
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=2)
    dc = DeepCompileBuilder().load()
    dc.init(dist.group.WORLD, SimpleNamespace(**SETTINGS, free_activation_threshold=1), 100)
    told = []
    for id, shape in enumerate(([7 + rank], [2 + rank, 3 - rank])):  # (7) and (8), (2, 3) and (3, 2)
        try:
            dc.register_z3_param(id, shape, torch.ones(4, device="cuda"), torch.ones(4, device="cuda"), False, None)
            told.append("accepted")
        except RuntimeError as error:
            told.append(f"refused: {error}")
    if rank == 1:
        print("expected ['refused', 'refused']\nobserved", told, flush=True)
        sys.exit("accepted" in told)


if __name__ == "__main__":
    if DeepCompileBuilder is None or not torch.cuda.is_available():
        print("could not judge: this needs a CUDA device, nvcc, nccl.h and deepspeed")
        sys.exit(2)
    DeepCompileBuilder().load()  # compiled once
    ranks = start_processes(on_rank, (f"file://{tempfile.mktemp()}",), 2, join=False, start_method="spawn").processes
    for rank in ranks:
        rank.join()
    sys.exit(ranks[1].exitcode)
