"""gloo: ranks that gather different numbers of elements are ended by SIGABRT instead of an error."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def on_rank(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    own = torch.ones(1 + rank)
    into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    try:
        into(own.new_empty(2 * own.numel()), own)
    except RuntimeError as error:
        print(rank, "raised", error)


if __name__ == "__main__":
    observed = "an error on both ranks"
    try:
        mp.start_processes(on_rank, (f"file://{tempfile.mktemp()}",), nprocs=2, start_method="fork")
    except mp.ProcessExitedException as ended:
        observed = str(ended)
    print("expected an error on both ranks\nobserved", observed)
    sys.exit(observed != "an error on both ranks")
