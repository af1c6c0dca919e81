"""One case as a program of its own: it needs torch and the implementation, nothing else.

    python THIS_FILE

Every rank prints what it saw beside what is expected. Exit code 1: something differed, raised, or did not come back.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from hashlib import blake2b
from math import lcm, prod, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

TARGET = "gpu_impl"
CASE: dict[str, Any] = {}

DEADLINE = 60.0
# A layout as a session is given it where the case says nothing else.
PLAIN = {
    "kind": "flat_padded",
    "alignment": 1,
    "dim": 0,
    "bucket_numel": None,
    "parameter_alignment": 1,
    "bucket_alignment": 1,
    "units": (),
    "group_size": None,
    "mesh": None,
    "bucket_least": None,
}
# Bit patterns that copying code is most likely to change, in one of five elements: NaN payloads, -0.0 and the like.
SPECIALS = {
    "float64": (0x7FF0000000000001, 0xFFF8DEADBEEF0001, 0x8000000000000000, 0x1, 0x7FF0000000000000),
    "float32": (0x7F800001, 0xFFC0BEEF, 0x80000000, 0x1, 0xFF800000),
    "float16": (0x7C01, 0xFE55, 0x8000, 0x1, 0xFC00),
    "bfloat16": (0x7F81, 0xFFD5, 0x8000, 0x1, 0xFF80),
    "float8_e5m2": (0x7D, 0xFF, 0x80, 0x1, 0xFC),
    "float8_e4m3fn": (0x7F, 0xFF, 0x80, 0x1),
}
MASK = (1 << 64) - 1


def words(key: str, count: int, width: int) -> list[int]:
    """`count` well-mixed numbers of `width` bytes that the seed and the key decide."""
    digest = blake2b(f"{CASE.get('seed', 0)}/{key}".encode(), digest_size=8).digest()
    start, found = int.from_bytes(digest, "little"), []
    for at in range(1, count + 1):
        x = (at * 0x9E3779B97F4A7C15 + start) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        found.append((x ^ (x >> 31)) & ((1 << 8 * width) - 1))
    return found


def contents(key: str, numel: int, dtype: str) -> torch.Tensor:
    """A flat tensor of bit patterns that differ at every position."""
    kind: torch.dtype = getattr(torch, dtype)
    parts = 2 if dtype.startswith("complex") else 1
    width = kind.itemsize // parts
    found = words(key, numel * parts, width)
    if dtype == "bool":
        found = [word & 1 for word in found]
    specials = SPECIALS.get({"complex64": "float32", "complex128": "float64"}.get(dtype, dtype), ())
    digest = blake2b(f"{CASE.get('seed', 0)}/{key}".encode(), digest_size=8).digest()
    for turn, at in enumerate(range(int.from_bytes(digest, "little") % 5, len(found), 5) if specials else ()):
        found[at] = specials[turn % len(specials)]
    if not found:
        return torch.empty(0, dtype=kind)
    return torch.frombuffer(bytearray(b"".join(w.to_bytes(width, "little") for w in found)), dtype=kind)


def raw(tensor: torch.Tensor) -> bytes:
    """The elements' bytes in row-major order."""
    packed = tensor.detach().contiguous()  # as one element is, whatever its stride
    return bytes(packed.as_strided((packed.numel(),), (1,)).view(torch.uint8).tolist())


def aligned(numel: int, ranks: int) -> int:
    """Elements that each of so many ranks stores of so many, equal parts rounded up."""
    alignment: int = CASE.get("layout", {}).get("alignment", 1)
    return -(-numel // (ranks * alignment)) * alignment


def sliced(full: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """A chunk along the layout's dim."""
    dim = CASE["layout"].get("dim", 0)
    size = -(-full.shape[dim] // ranks)
    start = min(rank * size, full.shape[dim])
    return full.narrow(dim, start, min(size, full.shape[dim] - start)).contiguous()


def together(id: str) -> list[str]:
    """The parameters that share a buffer of buckets with this one, in order, tied ones left out."""
    parameters = {p["id"]: p for p in CASE["parameters"]}
    dtype = parameters.get(id, {}).get("dtype", "float32")
    alike = [p["id"] for p in parameters.values() if p.get("dtype", "float32") == dtype and not p.get("tied_to")]
    return alike if id in alike else [id]


def place(shapes: list[Any], index: int, ranks: int) -> tuple[int, int, int]:
    """Where a parameter starts in its buffer, and where its bucket starts and ends."""
    layout = CASE["layout"]
    multiple = lcm(ranks * layout.get("alignment", 1), layout.get("bucket_alignment", 1))
    apart, cap = layout.get("parameter_alignment", 1), layout.get("bucket_numel")
    lows, starts, used = [0], [], 0
    for shape in shapes:
        start = -(-used // apart) * apart
        held = used - lows[-1]
        full = layout.get("bucket_least") is not None and held >= layout["bucket_least"]
        if full or (cap is not None and held and start + prod(shape) - lows[-1] > cap):
            lows.append(-(-used // multiple) * multiple)
            start = -(-lows[-1] // apart) * apart
        starts.append((start, len(lows) - 1))
        used = start + prod(shape)
    start, bucket = starts[index]
    return start, lows[bucket], [*lows[1:], -(-used // multiple) * multiple][bucket]


def stored(full: torch.Tensor, rank: int, ranks: int, id: str) -> tuple[torch.Tensor, int]:
    """The elements that a rank has of a parameter, flat, and how many it stores with padding."""
    layout, flat = CASE.get("layout", {}), full.reshape(-1)
    kind, numel = layout.get("kind", "flat_padded"), full.numel()
    if kind == "bucket":
        said = options(id, full, ranks)
        start, low, high = place(said["shapes"], said["index"], ranks)
        share = (high - low) // ranks
        first, last = (min(max(low + at * share - start, 0), numel) for at in (rank, rank + 1))
        return flat[first:last], last - first
    if kind == "ragged":
        share, edges = -(-numel // ranks), [0]
        while edges[-1] < numel:
            edges.append(edges[-1] + layout["units"][(len(edges) - 1) % len(layout["units"])])
        first, last = (next((e for e in edges if e >= at * share), numel) for at in (rank, rank + 1))
        return flat[first:last], min(last, numel) - min(first, numel)
    if kind == "grouped":
        rank, ranks = rank % layout["group_size"], layout["group_size"]
    if kind == "two_dimensional":
        tensor = layout["mesh"][1]
        flat = sliced(full, rank % tensor, tensor).reshape(-1)
        rank, ranks = rank // tensor, ranks // tensor
    length = aligned(flat.numel(), ranks)
    return flat[rank * length : (rank + 1) * length], length


def cut(full: torch.Tensor, rank: int, ranks: int, id: str) -> torch.Tensor:
    """What a rank stores, with zeros at the end where it stores more than it has."""
    layout = CASE.get("layout", {})
    if layout.get("kind") == "grouped_chunk":
        rank, ranks = rank % layout["group_size"], layout["group_size"]
    if layout.get("kind") in ("chunk", "grouped_chunk"):
        return sliced(full, rank, ranks)
    own, length = stored(full, rank, ranks, id)
    shard = torch.zeros(length, dtype=full.dtype)
    shard[: own.numel()] = own
    return shard


def at(ranks: int) -> dict[str, Any]:
    """What the case says of the layout, for so many ranks."""
    said = dict(CASE.get("layout", {}))
    if said.get("mesh"):
        said["mesh"] = (ranks // said["mesh"][1], said["mesh"][1])
    return said


def options(id: str, full: torch.Tensor, ranks: int) -> dict[str, Any]:
    """What is said to `shard` and `layout` beyond the plain case."""
    said = at(ranks)
    if said.pop("kind", "") == "bucket":
        root = next((p.get("tied_to") or id for p in CASE["parameters"] if p["id"] == id), id)
        ids = together(root)
        index = ids.index(root)
        shapes = {p["id"]: tuple(p["shape"]) for p in CASE["parameters"]}
        said |= {"shapes": [shapes.get(one, ()) for one in ids], "index": index}
        said["shapes"][index] = tuple(full.shape)
    return said


def trains() -> bool:
    """Whether the program calculates with the parameters, which then hold small whole numbers."""
    return any(operation["kind"] in ("forward", "backward", "clip", "step") for operation in CASE["program"])


def near(seen: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether a tensor that was trained differs by roundings of its dtype only."""
    if not expected.is_floating_point() or not expected.numel():
        return False
    room = 16 * torch.finfo(expected.dtype).eps * float(expected.double().abs().max().clamp(min=1.0))
    return bool(((seen.double() - expected.double()).abs() <= room).all())


class Whole:
    """The program on whole parameters: `weights` by id of the root, `reduced` gradients in float64, the last `loss`."""

    def __init__(self, rank: Rank) -> None:
        """As registered."""
        self.of, self.loss = rank, 0.0
        self.names = list(rank.parameters)
        self.weights = {id: rank.full(id, "registered") for id in self.names if rank.root(id) == id}
        self.saved: dict[str, torch.Tensor] = {}
        self.pending: dict[str, torch.Tensor] = {}
        self.reduced: dict[str, torch.Tensor] = {}
        self.next: dict[str, torch.Tensor] = {}

    def norm(self) -> float:
        """Of the gradients reduced last."""
        return sqrt(sum(float((total**2).sum()) for total in self.reduced.values()))

    def do_update(self, index: int, _: Any, ids: list[str], __: int) -> None:
        """New contents."""
        self.weights |= {self.of.root(id): self.of.full(self.of.root(id), index) for id in ids}

    def do_save(self, *_: Any) -> None:
        """Everything."""
        self.saved = dict(self.weights)

    def do_load(self, *_: Any) -> None:
        """What was saved."""
        self.weights = dict(self.saved)

    def do_accumulate(self, index: int, _: Any, ids: list[str], ranks: int) -> None:
        """Added to what is there."""
        for id in self.of.with_gradient(ids):
            total = torch.stack([self.of.gradient(id, index, rank).double() for rank in range(ranks)]).sum(0)
            self.pending[id] = self.pending.get(id, 0) + total

    def do_reduce(self, index: int, operation: Any, ids: list[str], ranks: int) -> None:
        """With one gradient more."""
        self.do_accumulate(index, operation, ids, ranks)
        divisor = ranks if operation.get("reduction") == "mean" else 1
        self.reduced = {id: self.pending.pop(id) / divisor for id in self.of.with_gradient(ids)}

    def do_forward(self, _: int, operation: Any, __: list[str], ranks: int) -> None:
        """The sum of w x + w w / 2 over ranks and names, and its gradient w + x."""
        self.loss, self.next = 0.0, {}
        for id in self.names:
            root = self.of.root(id)
            w = self.weights[root].double()
            for rank in range(ranks) if self.weights[root].is_floating_point() else ():
                x = (torch.arange(w.numel()).reshape(w.shape) + 3 * rank + 5 * operation.get("value", 0)) % 7 - 3
                self.loss += float((w * x + w * w / 2).sum())
                self.next[root] = self.next.get(root, 0) + w + x

    def do_backward(self, _: int, operation: Any, *__: Any) -> None:
        """Of the last forward, with what was accumulated in the main group."""
        mine = self.pending if operation.get("group", "main") == "main" else {}
        self.reduced = {
            id: total + mine.pop(id, 0) for id, total in self.next.items() if id in self.of.with_gradient(self.names)
        }

    def do_clip(self, _: int, operation: Any, *__: Any) -> None:
        """Scaled where the norm is above the bound."""
        bound, norm = float(operation.get("value", 0)), self.norm()
        if norm > bound:
            self.reduced = {id: total * (bound / norm) for id, total in self.reduced.items()}

    def do_step(self, _: int, operation: Any, *__: Any) -> None:
        """By a power of two, rounded once."""
        rate = 2.0 ** -max(operation.get("value", 0), 1)
        for id, total in self.reduced.items():
            self.weights[id] = (self.weights[id].double() - rate * total).to(self.weights[id].dtype)


class Functions:
    """The two-function form, seen as a session."""

    def __init__(self, implementation: Any, group: Any) -> None:
        """Nothing is registered yet."""
        self.implementation, self.group, self.specs = implementation, group, dict[str, Any]()

    def register(self, specs: list[Any]) -> None:
        """Keep what `shard` returned."""
        self.specs = {spec.id: spec for spec in specs}

    def gather(self, id: str) -> Any:
        """The implementation's gather."""
        return self.implementation.gather(self.specs[id].shard, self.specs[id].shape, self.group)

    def update(self, id: str, shard: torch.Tensor) -> None:
        """The next gather sends this shard."""
        self.specs[id].shard = shard

    def reduce(self, grads: dict[str, torch.Tensor], _: str) -> dict[str, Any]:
        """The implementation's reduce."""
        return {id: self.implementation.reduce(grad, self.group) for id, grad in grads.items()}


class Rank:
    """One rank performing the program."""

    def __init__(self, pool_rank: int, folder: Path) -> None:
        """Make every group, in one order everywhere, and find the implementation."""
        self.pool_rank, self.folder, self.wrong = pool_rank, folder, False
        self.parameters = {p["id"]: p for p in CASE["parameters"]}
        self.ranks = {group["name"]: group["ranks"] for group in CASE["groups"]}
        self.groups = {name: dist.new_group(ranks) for name, ranks in self.ranks.items()}
        module, _, attribute = TARGET.partition(":")
        found: Any = importlib.import_module(module)
        for part in filter(None, attribute.split(".")):
            found = getattr(found, part)
        self.implementation = found() if isinstance(found, type) and not hasattr(found, "Session") else found
        self.sessions: dict[str, Any] = {}

    def perform(self) -> None:
        """The whole program, until something raises."""
        late = {(delay["rank"], delay["operation"]): delay["milliseconds"] for delay in CASE.get("delays", ())}
        here = "main"
        for index, operation in enumerate(CASE["program"]):
            group = operation.get("group", "main")
            if group != here:
                dist.barrier()
                here = group
            if self.pool_rank not in self.ranks[group]:
                continue
            self.index, self.operation, self.group = index, operation, group
            self.rank, self.world_size = self.ranks[group].index(self.pool_rank), len(self.ranks[group])
            self.ids = list(operation.get("parameters") or self.parameters)
            time.sleep(late.get((self.rank, index), 0) / 1000)
            so_far, self.wrong = self.wrong, False
            getattr(self, f"do_{operation['kind']}")()
            if not self.wrong:
                self.say("done")
            self.wrong |= so_far

    def say(self, text: str) -> None:
        """One line about the operation."""
        kind, place = self.operation["kind"], "" if self.group == "main" else f" in {self.group}"
        print(f"rank {self.rank} of {self.world_size}{place}, step {self.index} {kind}: {text}\n", end="", flush=True)

    def compare(self, id: str, seen: Any, expected: torch.Tensor) -> None:
        """Say where bits differ."""
        if not isinstance(seen, torch.Tensor):
            self.different(f"{id} is {type(seen).__name__}, expected a tensor")
        elif (seen.dtype, tuple(seen.shape)) != (expected.dtype, tuple(expected.shape)):
            self.different(f"{id} is {seen.dtype} {list(seen.shape)}, expected {expected.dtype} {list(expected.shape)}")
        elif raw(seen) != raw(expected) and not (trains() and near(seen, expected)):
            width, here, there = seen.element_size(), raw(seen), raw(expected)
            at = next(at for at in range(0, len(here), width) if here[at : at + width] != there[at : at + width])
            bits = [f"0x{part[at : at + width][::-1].hex()}" for part in (here, there)]
            self.different(f"{id} element {at // width} is {bits[0]}, expected {bits[1]}")

    def different(self, text: str) -> None:
        """Say it, and remember that something was wrong."""
        self.wrong = True
        self.say(f"DIFFERENT: {text}")

    def full(self, id: str, written: Any) -> torch.Tensor:
        """The whole parameter as the operation `written` left it, in row-major memory."""
        p = self.parameters[id]
        key, numel, dtype = f"{p.get('tied_to') or id}#{written}", prod(p["shape"]), p.get("dtype", "float32")
        if trains() and getattr(torch, dtype).is_floating_point:
            numbers = torch.tensor([word % 13 - 6 for word in words(key, numel, 8)], dtype=torch.float64)
            return numbers.to(getattr(torch, dtype)).reshape(p["shape"])
        return contents(key, numel, dtype).reshape(p["shape"])

    def root(self, id: str) -> str:
        """The id of the parameter whose memory this one uses."""
        return str(self.parameters[id].get("tied_to") or id)

    def whole(self, until: int) -> Whole:
        """The program without shards up to an operation, from its start: not every rank performs all of it."""
        whole = Whole(self)
        for index, operation in enumerate(CASE["program"][:until]):
            act = getattr(whole, f"do_{operation['kind']}", None)
            if act is not None:
                ranks = self.ranks[operation.get("group", "main")]
                act(index, operation, list(operation.get("parameters") or self.parameters), len(ranks))
        return whole

    def expected(self, id: str) -> torch.Tensor:
        """What a gather must show now."""
        return self.whole(self.index).weights[self.root(id)]

    def shard_of(self, full: torch.Tensor, id: str) -> torch.Tensor:
        """By the implementation's own `shard`, where it has one."""
        own, where = getattr(self.implementation, "shard", None), (full, self.rank, self.world_size)
        made = own(*where, **options(id, full, self.world_size)) if own else cut(*where, id)
        return made.detach().clone() if made.is_contiguous() else made

    def spec(self, p: dict[str, Any], written: Any) -> SimpleNamespace:
        """What a session is given for one parameter."""
        shape, dtype = tuple(p["shape"]), getattr(torch, p.get("dtype", "float32"))
        plain, offset = self.full(p["id"], written) if p["id"] in self.parameters else torch.zeros(shape), 0
        full = plain.to(dtype) if tuple(plain.shape) == shape else torch.zeros(shape, dtype=dtype)
        if p.get("strides") or p.get("storage_offset"):
            strides, offset = p.get("strides") or full.stride(), p.get("storage_offset", 0)
            extent = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n)
            full = torch.zeros(max(extent, 1), dtype=dtype).as_strided(shape, strides, offset).copy_(full)
        frozen, buffer = p.get("frozen", False), p.get("grad_buffer", "full")
        grad_dtype = getattr(torch, p.get("grad_dtype") or p.get("dtype", "float32"))
        grad_shape = (cut(full, self.rank, self.world_size, p["id"]).numel(),) if buffer == "partition" else shape
        grad = None if frozen or buffer == "absent" else torch.zeros(grad_shape, dtype=grad_dtype)
        has_shard = getattr(self.implementation, "shard", None)
        return SimpleNamespace(
            id=p["id"],
            shape=shape,
            dtype=dtype,
            full=full,
            shard=self.shard_of(full, p["id"]) if has_shard else None,
            grad=grad,
            requires_grad=not frozen,
            tied_to=p.get("tied_to"),
            comm_dtype=getattr(torch, p["comm_dtype"]) if p.get("comm_dtype") else None,
        )

    def specs(self, written: Any) -> list[SimpleNamespace]:
        """What this rank registers, with the difference that the case gives it."""
        chosen = [self.parameters[id] for id in self.ids]
        mine = [d for d in CASE.get("divergences", ()) if d["rank"] == self.rank and self.group == "main"]
        for d in mine:
            if d["kind"] in ("shape", "dtype", "id"):
                changed = {d["kind"]: d["value"], "strides": None}
                chosen = [p | changed if p["id"] == d["parameter"] else p for p in chosen]
            elif d["kind"] == "order":
                chosen = chosen[::-1]
            elif d["kind"] == "missing":
                chosen = [p for p in chosen if p["id"] != d["parameter"]]
            elif d["kind"] == "extra":
                chosen = [*chosen, {"id": "only-here", "shape": d["value"]}]
            elif d["kind"] == "refuses":
                raise RuntimeError("this rank cannot provide its parameters (the case says so)")
        made = {spec.id: spec for spec in (self.spec(p, written) for p in chosen)}
        for spec in made.values():
            if spec.tied_to in made:
                spec.full, spec.shard = made[spec.tied_to].full, made[spec.tied_to].shard
        for d in mine:
            if d["kind"] == "shard_numel" and made[d["parameter"]].shard is not None:
                flat = made[d["parameter"]].shard.reshape(-1)
                kept = flat[: max(0, flat.numel() + d["value"])]
                made[d["parameter"]].shard = torch.cat([kept, kept.new_zeros(max(0, d["value"]))])
        return list(made.values())

    @property
    def session(self) -> Any:
        """The group's session, opened when it is first needed."""
        if self.group not in self.sessions:
            group = self.groups[self.group]
            make = getattr(self.implementation, "Session", None)
            layout = PLAIN | at(self.world_size)
            opened = make(group, torch.device("cpu"), layout) if make else Functions(self.implementation, group)
            self.sessions[self.group] = opened
        return self.sessions[self.group]

    def do_register(self) -> None:
        """All parameters at once."""
        self.session.register(self.specs("registered" if self.group == "main" else f"unwritten#{self.index}"))

    def do_layout(self) -> None:
        """Print what the implementation says."""
        for id in self.ids:
            shape = tuple(self.parameters[id]["shape"])
            said = options(id, torch.empty(shape, device="meta"), self.world_size)
            self.say(f"{id}: {self.implementation.layout(shape, self.rank, self.world_size, **said)}")

    def do_gather(self) -> None:
        """Each in turn."""
        for id in self.ids:
            self.compare(id, self.session.gather(id), self.expected(id))

    def do_prefetch(self) -> None:
        """All in one call."""
        self.session.prefetch(self.ids)

    def do_wait(self) -> None:
        """Each in turn."""
        for id in self.ids:
            self.compare(id, self.session.wait(id), self.expected(id))

    def do_use(self) -> None:
        """Nothing to be done."""

    def do_invalidate(self) -> None:
        """Each in turn."""
        for id in self.ids:
            self.session.invalidate(id)

    def do_release(self) -> None:
        """Each in turn."""
        for id in self.ids:
            self.session.release(id)

    def do_update(self) -> None:
        """New contents, the same on every rank before they are cut."""
        for id in self.ids:
            self.session.update(id, self.shard_of(self.full(id, self.index), id))

    def gradient(self, id: str, index: int, rank: int) -> torch.Tensor:
        """Small whole numbers, different on every rank, so that every sum and mean is exact."""
        p = self.parameters[id]
        numbers = torch.arange(prod(p["shape"])).reshape(p["shape"]) * 7 + rank * 3 + index
        return ((numbers % 5 + 1) * len(self.ranks["main"])).to(
            getattr(torch, p.get("grad_dtype") or p.get("dtype", "float32"))
        )

    def with_gradient(self, ids: list[str]) -> list[str]:
        """Those that are not frozen, tied ones once."""
        return [id for id in ids if not self.parameters[id].get("frozen") and self.root(id) == id]

    def gradients(self) -> dict[str, torch.Tensor]:
        """This rank's, for all that have one."""
        return {id: self.gradient(id, self.index, self.rank) for id in self.with_gradient(self.ids)}

    def do_accumulate(self) -> None:
        """Kept for the next reduce."""
        self.session.accumulate(self.gradients())

    def do_reduce(self) -> None:
        """This rank's shard of the sum or mean, compared where the rank owns it."""
        grads = self.gradients()
        mean = self.operation.get("reduction") == "mean"
        seen = self.session.reduce(dict(grads), "mean" if mean else "sum")
        for id, total in self.whole(self.index + 1).reduced.items():
            expected = cut(total, self.rank, self.world_size, id).reshape(-1).to(grads[id].dtype)
            self.compare(id, seen[id].reshape(-1), expected)

    def do_norm(self) -> None:
        """Of the gradients reduced last."""
        self.compare_number("norm", float(self.session.norm()), self.whole(self.index).norm())

    def compare_number(self, what: str, seen: float, expected: float) -> None:
        """Up to what the coarsest dtype of the case rounds."""
        dtypes = [getattr(torch, p.get("dtype", "float32")) for p in self.parameters.values()]
        room = max(torch.finfo(dtype).eps for dtype in (torch.float32, *dtypes) if dtype.is_floating_point)
        if not abs(seen - expected) <= 16 * room * max(1.0, abs(expected)):
            self.different(f"{what} is {seen}, expected {expected}")

    def do_save(self) -> None:
        """Everything, to one place."""
        self.session.save(str(self.folder / "saved"))

    def do_load(self) -> None:
        """What was saved; at another world size other contents are registered first."""
        if self.group not in self.sessions:
            self.do_register()
        self.session.load(str(self.folder / "saved"))

    def do_forward(self) -> None:
        """The session's own model."""
        loss = float(self.session.forward(self.operation.get("value", 0)))
        self.compare_number("loss", loss, self.whole(self.index + 1).loss)

    def do_backward(self) -> None:
        """Of the last forward; its gradients are compared where they are returned."""
        seen = self.session.backward()
        for id, total in self.whole(self.index + 1).reduced.items() if seen else ():
            expected = cut(total, self.rank, self.world_size, id).reshape(-1).to(seen[id].dtype)
            self.compare(id, seen[id].reshape(-1), expected)

    def do_clip(self) -> None:
        """To the case's bound."""
        norm = float(self.session.clip(float(self.operation.get("value", 0))))
        self.compare_number("norm before clipping", norm, self.whole(self.index).norm())

    def do_step(self) -> None:
        """By a power of two."""
        self.session.step(2.0 ** -max(self.operation.get("value", 0), 1))


def run(pool_rank: int, pool_size: int, folder: str) -> None:
    """One process of the run; its exit code says whether something was wrong."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=pool_rank, world_size=pool_size)
    rank = Rank(pool_rank, Path(folder))
    try:
        rank.perform()
    except Exception as error:  # whatever an implementation raises is what was observed
        rank.different(f"raised {type(error).__name__}: {error}")
    sys.stdout.flush()
    os._exit(int(rank.wrong))  # a peer may never come back to end the process group with


def main() -> int:
    """Start the ranks and wait for them, not for ever."""
    pool_size = 1 + max(rank for group in CASE["groups"] for rank in group["ranks"])
    sys.path.insert(0, os.getcwd())
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("fork")  # nothing ran here yet; a fork finds torch imported
        ranks = [context.Process(target=run, args=(rank, pool_size, folder)) for rank in range(pool_size)]
        for rank in ranks:
            rank.start()
        end = time.monotonic() + DEADLINE
        for rank in ranks:
            rank.join(max(0.0, end - time.monotonic()))
        lost = [number for number, rank in enumerate(ranks) if rank.is_alive()]
        for number in lost:
            print(f"pool rank {number}: did not come back within {DEADLINE:.0f} s")
            ranks[number].kill()
    codes = [rank.exitcode for rank in ranks]
    print("DIFFERENT" if any(codes) else "everything is as expected")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
