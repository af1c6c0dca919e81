"""What runs on a rank: operations of an adapter's session, one after another, told back as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from shardproof.case_file import decode_trusted
from shardproof.implementations import resolve
from shardproof.rank_side.sessions import load
from shardproof.ranks import Context


def program(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """What each operation of `payload` returned: bytes of tensors as hex, shapes, numbers, or an error (the last)."""
    import torch

    if context.rank not in payload["ranks"]:
        return None, []
    told: list[object] = []
    layout, rank = payload["layout"], payload["ranks"].index(context.rank)
    opened = _implementation(payload["implementation"]).Session
    state = SimpleNamespace(context=context, layout=layout, rank=rank, blobs=blobs, opened=opened)
    state.session = opened(context.group(payload["ranks"]), torch.device("cpu"), layout)
    for kind, *arguments in payload["program"]:
        try:
            told.append(_OPERATIONS[kind](state, *arguments))
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
            break
    return told, []


def policies(context: Context, payload: list[Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """The implementation's name and cases: its policy's answer to each case."""
    policy = _implementation(payload[0]).policy
    return [policy(decode_trusted(text)) for text in payload[1]], []


def layouts(context: Context, payload: list[Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """The implementation's name and (shape, rank, world size, options): its own layout of each."""
    layout = _implementation(payload[0]).layout
    return [layout(shape, rank, world_size, **more) for shape, rank, world_size, more in payload[1]], []


def _implementation(name: str) -> Any:
    return load(resolve(name).target).object


def _register(state: Any, specs: list[dict[str, Any]]) -> None:
    import torch

    made = []
    for spec in specs:
        flat = torch.frombuffer(state.blobs[spec["blob"]] or bytearray(1), dtype=torch.uint8)
        flat = flat[: len(state.blobs[spec["blob"]])].view(getattr(torch, spec["dtype"]))
        full = flat.as_strided(spec["shape"], spec["strides"]) if "strides" in spec else flat.reshape(spec["shape"])
        comm_dtype = getattr(torch, spec["comm_dtype"]) if "comm_dtype" in spec else None
        trained, tied_to = not spec.get("frozen", False), spec.get("tied_to")
        own = {
            "id": spec["id"],
            "shape": tuple(full.shape),
            "dtype": full.dtype,
            "full": full,
            "comm_dtype": comm_dtype,
        }
        made.append(SimpleNamespace(**own, requires_grad=trained, tied_to=tied_to, shard=None, grad=None))
    state.session.register(made)


def _gather(state: Any, id: str) -> tuple[str, list[int], str]:
    return _told(state.session.gather(id))


def _wait(state: Any, id: str) -> tuple[str, list[int], str]:
    return _told(state.session.wait(id))


def _shard(state: Any, id: str) -> tuple[str, list[int], str]:
    return _told(state.session.shard(id))


def _update(state: Any, id: str, blobs: list[int]) -> None:
    """Each rank its own blob."""
    import torch

    old = state.session.shard(id)
    raw = state.blobs[blobs[state.rank]]
    new = torch.frombuffer(raw or bytearray(1), dtype=torch.uint8)[: len(raw)].view(old.dtype)
    state.session.update(id, new)


def _gradients(state: Any, grads: dict[str, list[Any]]) -> dict[str, Any]:
    """`grads[id]` is (shape, dtype, a list of numbers a rank)."""
    import torch

    return {
        id: torch.tensor(numbers[state.rank], dtype=getattr(torch, dtype)).reshape(shape)
        for id, (shape, dtype, numbers) in grads.items()
    }


def _accumulate(state: Any, grads: dict[str, list[Any]]) -> None:
    state.session.accumulate(_gradients(state, grads))


def _reduce(state: Any, grads: dict[str, list[Any]], reduction: str) -> dict[str, list[Any]]:
    given = _gradients(state, grads)
    before = {id: grad.tolist() for id, grad in given.items()}
    reduced = state.session.reduce(given, reduction)
    assert {id: grad.tolist() for id, grad in given.items()} == before
    return _numbers(reduced)


def _numbers(shards: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {id: [shard.reshape(-1).tolist(), str(shard.dtype)] for id, shard in shards.items()}


def _load_elsewhere(state: Any, ranks: list[int], specs: list[dict[str, Any]], path: str) -> None:
    """Go on in another group of the same ranks or fewer, with other contents until they are loaded."""
    import torch

    if state.context.rank not in ranks:
        raise RuntimeError("this rank is not in the other group")
    state.session = state.opened(state.context.group(ranks), torch.device("cpu"), state.layout)
    state.rank = ranks.index(state.context.rank)
    _register(state, specs)
    state.session.load(path)


def _read(state: Any, path: str) -> dict[str, str]:
    return {id: _told(tensor)[0] for id, tensor in state.session.read(path).items()}


def _told(tensor: Any) -> tuple[str, list[int], str]:
    import torch

    # A copy, because memory that NumPy has seen cannot be freed by resizing any more, as FSDP2 does it.
    raw = tensor.detach().clone().reshape(-1).view(torch.uint8)
    return raw.numpy().tobytes().hex(), list(tensor.shape), str(tensor.dtype)


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "register": _register,
    "gather": _gather,
    "wait": _wait,
    "shard": _shard,
    "update": _update,
    "accumulate": _accumulate,
    "reduce": _reduce,
    "load elsewhere": _load_elsewhere,
    "read": _read,
    "available": lambda state, id: state.session.available(id),
    "prefetch": lambda state, ids: state.session.prefetch(ids),
    "release": lambda state, id: state.session.release(id),
    "norm": lambda state: state.session.norm(),
    "save": lambda state, path: state.session.save(path),
    "load": lambda state, path: state.session.load(path),
}
