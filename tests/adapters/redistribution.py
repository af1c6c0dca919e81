"""What runs on a rank: DTensors that are moved between placements and reduced, told as bytes beside what is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardproof.ranks import Context


def jobs(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """Each job's answer on this rank, None where the mesh is without it. `payload["mesh"]` is rows of ranks, or one."""
    import torch

    rows = payload["mesh"]
    if all(context.rank not in (row if isinstance(row, list) else rows) for row in rows):
        return None, []
    torch.set_num_threads(1)
    mesh = _flat(context, rows) if isinstance(rows[0], int) else _of_rows(context, rows)
    return [_done(_JOBS[job["kind"]], mesh, job) for job in payload["jobs"]], []


def _flat(context: Context, ranks: list[int]) -> Any:
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh.from_group(context.group(ranks), "cpu", mesh_dim_names=("all",))


def _of_rows(context: Context, rows: list[list[int]]) -> Any:
    """A two-dimensional mesh. Rows do not overlap, nor do columns, so that every rank asks in a fitting order."""
    from torch.distributed.device_mesh import DeviceMesh

    row = next(row for row in rows if context.rank in row)
    column = [other[row.index(context.rank)] for other in rows]
    groups = [context.group(column), context.group(row)]
    return DeviceMesh.from_group(groups, "cpu", mesh=rows, mesh_dim_names=("data", "tensor"))


def _done(call: Any, mesh: Any, job: Mapping[str, Any]) -> Any:
    try:
        return call(mesh, **{name: value for name, value in job.items() if name != "kind"})
    except Exception as error:
        return " ".join([f"{type(error).__name__}:", *str(error).splitlines()[:1]])


def _placements(words: Sequence[str]) -> list[Any]:
    """R, S0, P sum, X0/2 (strided along dim 0, split by 2)."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    made: list[Any] = []
    for word in words:
        kind, rest = word[0], word[1:]
        if kind == "X":
            dim, factor = map(int, rest.split("/"))
            made.append(_StridedShard(dim, split_factor=factor))
        else:
            made.append({"R": Replicate, "S": lambda: Shard(int(rest)), "P": lambda: Partial(rest or "sum")}[kind]())
    return made


def _whole(shape: Sequence[int], dtype: str, seed: int = 0) -> Any:
    """Small integers, negative ones among them, no two neighbours alike."""
    import torch

    numel = torch.Size(shape).numel()
    return ((torch.arange(numel) * 7 + 3 * seed) % 23 - 9).to(getattr(torch, dtype)).reshape(shape)


def _distributed(mesh: Any, shape: Sequence[int], dtype: str, placed: Sequence[str]) -> tuple[Any, Any]:
    """A DTensor and what it is of; where a mesh dim is partial, ranks along it hold other summands each."""
    import torch
    from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

    placements = _placements(placed)
    partial = [dim for dim, word in enumerate(placed) if word[0] == "P"]
    if not partial:
        whole = _whole(shape, dtype)
        # A scatter of what is strided takes even sizes alone; a cut of what every rank has takes any.
        source = None if any(word[0] == "X" for word in placed) else 0
        return distribute_tensor(whole, mesh, placements, src_data_rank=source), whole
    places = mesh.mesh.shape
    summands = torch.zeros(*places, *shape, dtype=getattr(torch, dtype))
    for at in range(mesh.size()):
        place = torch.unravel_index(torch.tensor(at), places)
        seed = sum(int(place[dim]) * (1 + dim) for dim in partial)
        summands[tuple(map(int, place))] = _whole(shape, dtype, seed)
    own = summands[tuple(mesh.get_coordinate())]
    others = [Replicate() if dim in partial else placement for dim, placement in enumerate(placements)]
    local = distribute_tensor(own, mesh, others, src_data_rank=None).to_local()
    made = DTensor.from_local(local, mesh, placements, run_check=False, shape=torch.Size(shape), stride=own.stride())
    whole = summands
    for dim in range(len(places)):
        whole = whole.sum(0) if dim in partial else whole[0]
    return made, whole


def _redistribute(mesh: Any, shape: Sequence[int], dtype: str, placed: list[str], to: list[str]) -> list[str]:
    """What is stored after, what is gathered from that, and what is right as a whole."""
    made, whole = _distributed(mesh, shape, dtype, placed)
    moved = made.redistribute(placements=_placements(to))
    return [_hex(moved.to_local()), _hex(moved.full_tensor()), _hex(whole)]


def _hex(tensor: Any) -> str:
    import torch

    raw: bytes = tensor.detach().clone().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return raw.hex()


_JOBS = {"redistribute": _redistribute}
