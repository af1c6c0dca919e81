"""What runs on a rank: FSDP2 beside the same module whole, where the protocol has no word for what is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardproof.ranks import Context

Told = tuple[object, list[bytes]]

# Values of the gradient of a weight of 5 x 2 on rank r: column c of the input is r + 1 + c.
ROWS, COLUMNS = 5, 2


def _model(context: Context, payload: Mapping[str, Any]) -> tuple[Any, Any]:
    """One linear module under `fully_shard`, and the input on this rank."""
    import torch
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dtypes = {name: getattr(torch, dtype) for name, dtype in payload.get("precision", {}).items()}
    model = torch.nn.Linear(COLUMNS, ROWS, bias=False, dtype=getattr(torch, payload.get("dtype", "float32")))
    with torch.no_grad():
        model.weight.copy_(torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS) + payload.get("offset", 0.0))
    mesh = DeviceMesh.from_group(context.group(payload["ranks"]), "cpu")
    options = {"reshard_after_forward": payload["reshard"]} if "reshard" in payload else {}
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(**dtypes), **options)
    model.set_force_sum_reduction_for_comms(True)
    model.set_gradient_divide_factor(1.0)
    rank = payload["ranks"].index(context.rank)
    return model, torch.tensor([[rank + 1.0 + column for column in range(COLUMNS)]], dtype=model.weight.dtype)


def clipped(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> Told:
    """The norm before a clip, and the whole gradient after it."""
    import torch

    if context.rank not in payload["ranks"]:
        return None, []
    model, given = _model(context, payload)
    model(given).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), payload["bound"], norm_type=float(payload["norm"]))
    return [norm.full_tensor().item(), model.weight.grad.full_tensor().flatten().tolist()], []


def precise(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> Told:
    """What is whole in the module, what comes out, the gradient, and what is stored, each with its dtype."""
    import torch

    if context.rank not in payload["ranks"]:
        return None, []
    model, given = _model(context, payload)
    model.unshard()
    whole = model.weight.detach().clone()
    model.reshard()
    out = model(given)
    out.sum().backward()
    seen = [whole, out.detach(), model.weight.grad.full_tensor(), model.weight.full_tensor().detach()]
    return [[str(tensor.dtype), tensor.to(torch.float64).flatten().tolist()] for tensor in seen], []


def states(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> Told:
    """Over how many ranks the module has its weight cut, at every point where a user can look; 1 where it is whole."""
    import torch
    from torch.distributed.tensor import DTensor

    if context.rank not in payload["ranks"]:
        return None, []
    model, given = _model(context, payload)
    seen: dict[str, object] = {}

    def look(when: str) -> None:
        weight = model.weight
        seen[when] = (
            [weight.device_mesh.size(-1), weight.numel()] if isinstance(weight, DTensor) else [1, weight.numel()]
        )

    look("constructed")
    with torch.no_grad():
        model(given)
    look("after a forward without gradients")
    loss = model(given).sum()
    look("after a forward")
    loss.backward()
    look("after a backward")
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    look("after a step")
    model.load_state_dict(model.state_dict())
    look("after a load")
    return [seen, model.weight.full_tensor().detach().flatten().tolist()], []


def tied(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> Told:
    """A weight under two names of one module: whether it is one parameter still, its gradient, its state dict."""
    import torch
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    if context.rank not in payload["ranks"]:
        return None, []
    first, second = (torch.nn.Linear(3, 3, bias=False) for _ in range(2))
    torch.nn.init.ones_(first.weight)
    second.weight = first.weight
    model = torch.nn.Sequential(first, second)
    fully_shard(model, mesh=DeviceMesh.from_group(context.group(payload["ranks"]), "cpu"))
    model.set_force_sum_reduction_for_comms(True)
    model.set_gradient_divide_factor(1.0)
    model(torch.full((1, 3), float(context.rank + 1))).sum().backward()
    model.reshard()
    one = model[0].weight is model[1].weight
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    state = model.state_dict()
    return [
        one,
        model[0].weight.grad.full_tensor().tolist(),
        *(state[name].full_tensor().tolist() for name in state),
    ], []
