"""DeepCompile ZeRO-3: the padding of a reduced gradient receives the first element of the next gradient."""

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
    reduced = [torch.zeros(2, device="cuda") for _ in range(2)]  # 3 elements each: 2 a rank, the last is padding
    for id, buffer in enumerate(reduced):
        dc.register_z3_param(id, [3], torch.zeros(2, device="cuda"), buffer, False, None)
    dc.register_graph_z3(0, [0, 1])
    dc.start_backward(True)
    for id, value in enumerate((1.0, 5.0)):
        torch.ops.dc.reduce_grad(torch.full((3,), value, device="cuda"), 0, id)
    torch.ops.dc.end_backward(reduced, 0, True)
    if rank == 1:
        print("expected", [[1.0, 0.0], [5.0, 0.0]], "\nobserved", [buffer.tolist() for buffer in reduced], flush=True)
        sys.exit(reduced[0][1].item() != 0)


if __name__ == "__main__":
    if DeepCompileBuilder is None or not torch.cuda.is_available():
        print("could not judge: this needs a CUDA device, nvcc, nccl.h and deepspeed")
        sys.exit(2)
    DeepCompileBuilder().load()  # compiled once
    ranks = start_processes(on_rank, (f"file://{tempfile.mktemp()}",), 2, join=False, start_method="spawn").processes
    for rank in ranks:
        rank.join()
    sys.exit(ranks[1].exitcode)
