"""Watches one implementation call: the collectives it issues, what it allocates, copies and reads back.

It also poisons fresh memory, so that whoever reads what nobody wrote reads the poison and not a lucky zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from invariants import Buffer, Call, Cost
from shardproof.rank_side.tensors import dtype_name

_COLLECTIVES = {
    "_allgather_base_": "all_gather",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce",
    "broadcast_": "broadcast",
}
# Those that return what they receive, as DTensor uses them.
_FUNCTIONAL = {
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "broadcast": "broadcast",
    "all_to_all_single": "other",
}
_FRESH = {"empty", "empty_strided", "new_empty", "new_empty_strided", "empty_like"}
_COPIES = {"copy_", "clone", "_to_copy", "cat", "stack", "contiguous", "copy", "_foreach_copy_"}
_NOTHING = Cost()
_SYNCS = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero"}


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch annotates neither it nor __init__
    """Sees every operation that reaches the dispatcher while it is entered; `cost` sums them up.

    `poison` is the byte that fresh memory is filled with.
    """

    def __init__(self, poison: int) -> None:
        """Nothing is seen yet."""
        super().__init__()  # type: ignore[no-untyped-call]  # see above
        self._poison = poison
        self.reset()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler on every rank, which takes seconds, to leave this class out of it."""
        return False

    def reset(self) -> None:
        """Forget what was seen."""
        self._calls: list[Call] = []
        self._counts = dict.fromkeys(("allocations", "allocated_bytes", "copies", "copied_bytes", "syncs"), 0)

    def cost(self) -> Cost:
        """What was seen since the last reset."""
        return Cost(tuple(self._calls), **self._counts) if self._calls or any(self._counts.values()) else _NOTHING

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,  # torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation and write down what it was."""
        kind = _KINDS.get(func) or _kind(func)
        if kind.collective:
            self._calls.append(_call(kind.collective, args))
            return func(*args, **(kwargs or {}))
        result = func(*args, **kwargs) if kwargs else func(*args)
        if kind.functional:
            self._calls.append(Call(kind.functional, _buffers(args[0]), _buffers(result)))
        if kind.copies:
            self._add("copies", "copied_bytes", result)
        if kind.syncs:
            self._counts["syncs"] += 1
        if kind.allocates:
            self._add("allocations", "allocated_bytes", result)
            if kind.fresh and type(result) is torch.Tensor:  # a fake or meta tensor has no memory
                poison_storage(result.untyped_storage(), self._poison)
        return result

    def _add(self, count: str, size: str, result: Any) -> None:
        # Counted as copies even when empty would be unfair: nothing moves, nothing is allocated.
        for tensor in _tensors(result):
            if tensor.numel():
                self._counts[count] += 1
                self._counts[size] += tensor.numel() * tensor.element_size()


class PoisonedResize:
    """While entered, storages that grow in place are poisoned where nobody wrote (the dispatcher never sees them)."""

    def __init__(self, poison: int) -> None:
        """`poison` is the byte to fill with."""
        self._poison = poison
        self._original: Callable[..., Any] = torch.UntypedStorage.resize_

    def __enter__(self) -> None:
        """Replace the method."""
        original, poison = self._original, self._poison

        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            old = storage.nbytes()
            result = original(storage, size)
            if size > old:
                grown = torch.empty(0, dtype=torch.uint8, device=storage.device)
                grown.set_(storage, 0, (size,))  # type: ignore[call-overload]  # the stubs know older forms only
                grown[old:].fill_(poison)
            return result

        torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign,assignment]  # the only way to see it

    def __exit__(self, *_: object) -> None:
        """Put the method back."""
        torch.UntypedStorage.resize_ = self._original  # type: ignore[method-assign]  # see above


def poison_storage(storage: torch.UntypedStorage, byte: int) -> None:
    """Fill a whole storage with one byte."""
    if storage.nbytes():
        storage.fill_(byte)  # type: ignore[attr-defined]  # torch has it, its stubs do not


@dataclass(frozen=True, slots=True)
class _Kind:
    """What an operation is: a collective by its name, or a local one that copies, synchronises or returns memory."""

    collective: str
    functional: str
    copies: bool
    syncs: bool
    allocates: bool
    fresh: bool


_KINDS: dict[Any, _Kind] = {}


def _kind(func: Any) -> _Kind:
    """Found out once an operation; it allocates where some returned tensor aliases no argument."""
    name = func._schema.name.rpartition("::")[2]
    kind = _KINDS[func] = _Kind(
        collective=_COLLECTIVES.get(name, "other") if func.namespace == "c10d" else "",
        functional=_FUNCTIONAL.get(name, "") if func.namespace == "_c10d_functional" else "",
        copies=name in _COPIES,
        syncs=name in _SYNCS,
        allocates=any(out.alias_info is None and "Tensor" in str(out.type) for out in func._schema.returns),
        fresh=name in _FRESH,
    )
    return kind


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in a nest of lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _call(op: str, args: tuple[Any, ...]) -> Call:
    """A collective's operands: c10d operations name what they write first, then what they send."""
    given = args[1] if len(args) > 1 and op in ("all_gather", "reduce_scatter") else args[0] if args else ()
    return Call(op, _buffers(given), _buffers(args[0] if args else ()))


def _buffers(value: Any) -> tuple[Buffer, ...]:
    return tuple(_buffer(tensor) for tensor in _tensors(value))


def _buffer(tensor: torch.Tensor) -> Buffer:
    return Buffer(
        numel=tensor.numel(),
        dtype=dtype_name(tensor.dtype),
        contiguous=tensor.is_contiguous(),
        storage=tensor.untyped_storage().data_ptr(),
        offset=int(tensor.storage_offset()),
    )
