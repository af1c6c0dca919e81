"""What runs on a rank: DTensors that are moved between placements and reduced, told as bytes beside what is right.

Placements are words: R, S0, P, and X0/2 for what is strided along dim 0 and split by 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardproof.ranks import Context


def jobs(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """Each job's answer on this rank, None where it is not in the mesh. `payload["mesh"]` is ranks, or rows of them."""
    import torch

    rows = payload["mesh"]
    mesh = _flattened(rows) if payload["flattened"] else None  # every rank of the pool has a part in that
    if context.rank not in torch.tensor(rows):
        return None, []
    if mesh is None:
        mesh = _flat(context, rows) if isinstance(rows[0], int) else _of_rows(context, rows)
    return [_done(_JOBS[job["kind"]], mesh, job) for job in payload["jobs"]], []


def _flattened(rows: list[list[int]]) -> Any:
    """A two-dimensional mesh seen as one dim."""
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh("cpu", rows, mesh_dim_names=("data", "tensor"))._flatten("all")


def _flat(context: Context, ranks: list[int]) -> Any:
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh.from_group(context.group(ranks), "cpu")


def _of_rows(context: Context, rows: list[list[int]]) -> Any:
    from torch.distributed.device_mesh import DeviceMesh

    row = next(row for row in rows if context.rank in row)
    column = [other[row.index(context.rank)] for other in rows]
    groups = [context.group(column), context.group(row)]
    return DeviceMesh.from_group(groups, "cpu", mesh=rows, mesh_dim_names=("data", "tensor"))


def _done(call: Callable[..., Any], mesh: Any, job: Mapping[str, Any]) -> Any:
    try:
        return call(mesh, **{name: value for name, value in job.items() if name != "kind"})
    except Exception as error:
        return " ".join([f"{type(error).__name__}:", *str(error).splitlines()[:1]])


def _placement(word: str) -> Any:
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    if word[0] == "X":
        dim, factor = map(int, word[1:].split("/"))
        return _StridedShard(dim, split_factor=factor)
    return Shard(int(word[1:])) if word[0] == "S" else {"R": Replicate, "P": Partial}[word]()


def _whole(shape: Sequence[int], dtype: str, seed: int = 0) -> Any:
    """Small integers, negative ones among them, no two neighbours alike; for bool, of either kind."""
    import torch

    numbers = (torch.arange(torch.Size(shape).numel()) * 7 + 3 * seed) % 23 - 9
    return (numbers > 0 if dtype == "bool" else numbers.to(getattr(torch, dtype))).reshape(shape)


def _distributed(mesh: Any, shape: Sequence[int], dtype: str, placed: Sequence[str]) -> tuple[Any, Any]:
    """A DTensor and what it is of; where a mesh dim is partial, ranks along it hold other summands each."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    partial = [dim for dim, word in enumerate(placed) if word == "P"]

    def summand(place: Sequence[int]) -> Any:
        return _whole(shape, dtype, sum((dim + 1) * at for dim, at in zip(partial, place, strict=True)))

    summands = [summand(place) for place in itertools.product(*(range(mesh.size(dim)) for dim in partial))]
    own = summand([mesh.get_coordinate()[dim] for dim in partial])
    first = [_placement("R" if word[0] in "PX" else word) for word in placed]
    if any(word[0] == "X" for word in placed):
        first = [_placement("R") for _ in placed]  # distribute_tensor cuts strided shards of even sizes alone
    made = distribute_tensor(own, mesh, first, src_data_rank=None if partial else 0)
    placements = [_placement(word) for word in placed]
    if partial:
        form = {"shape": own.shape, "stride": own.stride()}
        made = DTensor.from_local(made.to_local(), mesh, placements, run_check=False, **form)
    return made.redistribute(placements=placements), sum(summands[1:], summands[0])


def _redistribute(mesh: Any, shape: Sequence[int], dtype: str, placed: list[str], to: list[str]) -> list[str]:
    """What this rank stores after, what is gathered from that, and what is right as a whole."""
    made, whole = _distributed(mesh, shape, dtype, placed)
    moved = made.redistribute(placements=[_placement(word) for word in to])
    return [_hex(moved.to_local()), _hex(moved.full_tensor()), _hex(whole)]


def _from_local(mesh: Any, shape: Sequence[int], dtype: str, placed: list[str]) -> list[str]:
    """As above, of chunks that this rank cut itself."""
    from torch.distributed.tensor import DTensor

    whole = _whole(shape, dtype)
    local = whole
    for mesh_dim, word in enumerate(placed):
        if word != "R":
            dim, at = int(word[1:]), mesh.get_coordinate()[mesh_dim]
            length = -(-local.shape[dim] // mesh.size(mesh_dim))
            start = min(at * length, local.shape[dim])
            local = local.narrow(dim, start, min(length, local.shape[dim] - start))
    placements = [_placement(word) for word in placed]
    form = {"shape": whole.shape, "stride": whole.stride()}
    made = DTensor.from_local(local.contiguous(), mesh, placements, **form)
    return [_hex(made.to_local()), _hex(made.full_tensor()), _hex(whole)]


def _under_tensor_parallelism(mesh: Any, shape: Sequence[int], dtype: str, dim: int) -> list[str]:
    """As above, of rows that FSDP2 cut of a slice along `dim`."""
    import torch
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor

    whole, module = _whole(shape, dtype), torch.nn.Module()
    module.weight = torch.nn.Parameter(distribute_tensor(whole, mesh["tensor"], [Shard(dim)]))
    fully_shard(module, mesh=mesh["data"])
    return [_hex(module.weight.to_local()), _hex(module.weight.full_tensor()), _hex(whole)]


def _reduce(
    mesh: Any, shape: Sequence[int], dtype: str, placed: list[str], name: str, more: Mapping[str, Any]
) -> list[str]:
    """What a reduction comes to, and what it does unsharded."""
    import torch

    made, whole = _distributed(mesh, shape, dtype, placed)
    function = torch.linalg.vector_norm if name == "norm" else getattr(torch, name)
    found, right = function(made, **more), function(whole, **more)
    return [_hex(found.full_tensor()), _hex(right)]


def _hex(tensor: Any) -> str:
    import torch

    shape = list(tensor.shape)
    return f"{shape} {tensor.detach().clone().reshape(-1).view(torch.uint8).numpy().tobytes().hex()}"


_JOBS: Mapping[str, Callable[..., Any]] = {
    "redistribute": _redistribute,
    "from_local": _from_local,
    "under_tensor_parallelism": _under_tensor_parallelism,
    "reduce": _reduce,
}
