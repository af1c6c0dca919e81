"""DTensor and FSDP1, with and without use_orig_params, through their adapters, on ranks, against bytes and integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any

import pytest

from reference import Chunk, FlatPadded
from shardproof.case import Case, Divergence, Group, LayoutKind, LayoutSpec, Operation, Parameter
from shardproof.case_file import encode
from shardproof.model_shapes import shape_set
from shardproof.pytest_plugin import Ranks
from tests.adapters.plain import GROUPS, ITEMSIZE, chunk_elements, flat_elements, pick, random_bytes
from tests.adapters.running import SESSIONS, Told, run_on_ranks, specs


@dataclass(frozen=True)
class Adapter:
    """A known implementation, and the layout that it is used with here."""

    name: str
    kind: LayoutKind

    def run(
        self, ranks: Ranks, group: tuple[int, ...], program: Told, blobs: Sequence[bytes] = (), dim: int = 0
    ) -> Told:
        return run_on_ranks(ranks, self.name, group, program, blobs, {"kind": self.kind, "dim": dim})

    def elements(self, shape: tuple[int, ...], world_size: int, rank: int, dim: int = 0) -> Sequence[int | None]:
        """What the rank stores, None where it is padding."""
        if self.kind == "chunk":
            return chunk_elements(shape, dim, world_size, rank)
        return flat_elements(shape, world_size, rank)


DTENSOR = Adapter("dtensor", "chunk")
FSDP1 = [Adapter("fsdp1", "flat_padded"), Adapter("fsdp1_orig_params", "flat_padded")]
ADAPTERS = [DTENSOR, *FSDP1]
each = pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
groups = pytest.mark.parametrize("group", GROUPS, ids=str)

FLOATS = [
    ((1,), "float32"),
    ((5,), "float16"),
    ((2, 3), "bfloat16"),
    ((7, 1, 2), "float64"),
    ((1, 9), "float32"),
    ((4, 3), "float32"),
]
OTHERS = [((5, 2), "int32"), ((3,), "bool"), ((0,), "float32"), ((0, 3), "int8"), ((2,), "int64"), ((9,), "uint8")]
COLUMNS = [((3, 5), "float32"), ((2, 7, 2), "bfloat16"), ((1, 1), "float64"), ((0, 3), "float32"), ((2, 0), "float32")]


@pytest.mark.parametrize(
    ("adapter", "parameters", "dim", "frozen"),
    [
        *((adapter, FLOATS, 0, frozen) for adapter in ADAPTERS for frozen in (False, True)),
        (DTENSOR, OTHERS, 0, True),
        (DTENSOR, COLUMNS, 1, False),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@groups
def test_round_trip(
    five_ranks: Ranks, group: tuple[int, ...], adapter: Adapter, parameters: list[Any], dim: int, frozen: bool
) -> None:
    """Shards are the model's cut, and what is gathered is what was sharded, bit for bit."""
    blobs = [random_bytes(shape, dtype, seed) for seed, (shape, dtype) in enumerate(parameters)]
    made = specs(parameters, frozen=frozen)
    ids = [spec["id"] for spec in made]
    program: Told = [["register", made], *(["shard", id] for id in ids), *(["gather", id] for id in ids)]
    for rank, told in enumerate(adapter.run(five_ranks, group, program, blobs, dim)):
        assert len(told) == len(program), told[-1]
        shards, gathered = told[1 : 1 + len(ids)], told[1 + len(ids) :]
        for (shape, dtype), raw, shard, result in zip(parameters, blobs, shards, gathered, strict=True):
            own = adapter.elements(shape, len(group), rank, dim)
            owned = pick(raw, ITEMSIZE[dtype], [at for at in own if at is not None])
            assert bytes.fromhex(shard[0])[: len(owned)] == owned  # what its padding holds is its own affair
            assert len(bytes.fromhex(shard[0])) == len(own) * ITEMSIZE[dtype]
            assert result == [raw.hex(), list(shape), f"torch.{dtype}"]


def written_shards(adapter: Adapter, raw: bytes, shape: tuple[int, ...], itemsize: int, size: int) -> list[bytes]:
    """Each rank's new shard; the padding is anything but zeros."""
    cut = [adapter.elements(shape, size, rank) for rank in range(size)]
    return [
        b"".join(b"\xa5" * itemsize if at is None else pick(raw, itemsize, [at]) for at in elements) for elements in cut
    ]


@each
@groups
def test_what_is_written_is_gathered(five_ranks: Ranks, group: tuple[int, ...], adapter: Adapter) -> None:
    """Updates of one of two parameters before, between and after gathers, and through a tied name."""
    shape, size, dtype = (5, 3), len(group), "bfloat16"
    old, other, *new = (random_bytes(shape, dtype, seed) for seed in range(5))
    cut = [shard for raw in new for shard in written_shards(adapter, raw, shape, 2, size)]
    written = [list(range(2 + at * size, 2 + (at + 1) * size)) for at in range(len(new))]
    made = specs([(shape, dtype), (shape, dtype)])
    made.append({**made[0], "id": "tied", "tied_to": "p.0"})
    program = [
        ["register", made],
        ["update", "p.0", written[0]],
        ["gather", "p.0"],
        ["gather", "tied"],
        ["gather", "p.1"],
        ["update", "p.0", written[1]],
        ["gather", "p.1"],
        ["gather", "p.0"],
        ["update", "tied", written[2]],
        ["gather", "p.0"],
        ["gather", "tied"],
    ]
    wanted = {2: new[0], 3: new[0], 4: other, 6: other, 7: new[1], 9: new[2], 10: new[2]}
    for told in adapter.run(five_ranks, group, program, [old, other, *cut]):
        assert len(told) == len(program), told[-1]
        assert {at: bytes.fromhex(told[at][0]) for at in wanted} == wanted


@pytest.mark.parametrize("adapter", FSDP1, ids=lambda adapter: adapter.name)
def test_available_inside_of_summon_full_params(five_ranks: Ranks, adapter: Adapter) -> None:
    program: Told = [
        ["register", specs([((3,), "float32"), ((2,), "float32")])],
        ["available", "p.0"],
        ["gather", "p.0"],
        ["available", "p.0"],
        ["available", "p.1"],
        ["release", "p.0"],
        ["available", "p.0"],
        ["available", "nobody"],
    ]
    for told in adapter.run(five_ranks, (1, 2), program, [bytes(12), bytes(8)]):
        assert [told[at] for at in (1, 3, 4, 6, 7)] == [False, True, False, False, False]


PRECISIONS = [("float32", None), ("float64", None), ("float16", None), ("bfloat16", None), ("bfloat16", "float32")]


@each
@pytest.mark.parametrize(("dtype", "comm_dtype"), PRECISIONS)
@groups
def test_gradients(
    five_ranks: Ranks, group: tuple[int, ...], dtype: str, comm_dtype: str | None, adapter: Adapter
) -> None:
    """Sums and means over ranks, accumulated ones included, of small integers; zeros as padding; and their norm."""
    size, shapes = len(group), {"p.0": (5, 2), "p.1": (1,), "p.2": (4,)}
    more = {"comm_dtype": comm_dtype} if comm_dtype else {}
    made = specs([(shape, dtype) for shape in shapes.values()], **more)
    blobs = [random_bytes(shape, dtype, 1) for shape in shapes.values()]

    def numbers(id: str, round: int) -> list[list[int]]:
        """One list a rank, different everywhere, multiples of the world size."""
        return [[size * (1 + (at + 3 * rank + round) % 5) for at in range(prod(shapes[id]))] for rank in range(size)]

    def grads(round: int, *ids: str) -> dict[str, Any]:
        return {id: (shapes[id], dtype, numbers(id, round)) for id in ids}

    def total(id: str, *rounds: int) -> list[int]:
        return [sum(column) for column in zip(*(part for round in rounds for part in numbers(id, round)), strict=True)]

    def reduced(rank: int, divisor: int, totals: dict[str, list[int]]) -> dict[str, list[Any]]:
        own = {id: adapter.elements(shapes[id], size, rank) for id in totals}
        shards = {id: [0 if at is None else totals[id][at] // divisor for at in own[id]] for id in totals}
        return {id: [shard, f"torch.{dtype}"] for id, shard in shards.items()}

    program = [
        ["register", made],
        ["reduce", grads(0, *shapes), "sum"],
        ["norm"],
        ["accumulate", grads(1, "p.0", "p.2")],
        ["accumulate", grads(2, "p.0", "p.2")],
        ["reduce", grads(3, "p.0", "p.2"), "mean"],
        ["reduce", grads(4, "p.1"), "sum"],
        ["norm"],
        ["gather", "p.0"],
    ]
    for rank, told in enumerate(adapter.run(five_ranks, group, program, blobs)):
        assert len(told) == len(program), told[-1]
        assert told[1] == reduced(rank, 1, {id: total(id, 0) for id in shapes})
        assert told[2] == sqrt(sum(value * value for id in shapes for value in total(id, 0)))
        assert told[5] == reduced(rank, size, {id: total(id, 1, 2, 3) for id in ("p.0", "p.2")})
        assert told[6] == reduced(rank, 1, {"p.1": total("p.1", 4)})
        assert told[7] == sqrt(sum(value * value for value in total("p.1", 4)))
        assert told[8][0] == blobs[0].hex()


@each
@pytest.mark.parametrize("elsewhere", [(1, 2), (1,), (1, 2, 3)], ids=str)
def test_saved_and_loaded_at_another_world_size(
    five_ranks: Ranks, tmp_path: Path, elsewhere: tuple[int, ...], adapter: Adapter
) -> None:
    """Whatever was written since, and under a tied name too."""
    group, parameters = (1, 2, 3), [((5, 3), "float32"), ((2,), "bfloat16")]
    old, small, other = (
        random_bytes((5, 3), "float32", 0),
        random_bytes((2,), "bfloat16", 0),
        random_bytes((5, 3), "float32", 1),
    )
    cut = written_shards(adapter, other, (5, 3), 4, len(group))
    path = str(tmp_path / "saved")

    def made(first: int, second: int) -> list[dict[str, Any]]:
        one, two = specs(parameters)
        one |= {"blob": first}
        return [one, {**one, "id": "tied", "tied_to": "p.0"}, two | {"blob": second, "frozen": True}]

    program = [
        ["register", made(0, 1)],
        ["gather", "p.0"],
        ["save", path],
        ["read", path],
        ["update", "p.0", [4, 5, 6]],
        ["gather", "p.0"],
        ["load", path],
        ["gather", "p.0"],
        ["load elsewhere", elsewhere, made(2, 3), path],
        *(["gather", id] for id in ("p.0", "tied", "p.1")),
    ]
    blobs = [old, small, bytes(60), bytes(4), *cut]
    for rank, told in zip(group, adapter.run(five_ranks, group, program, blobs), strict=True):
        assert told[3] == {"p.0": old.hex(), "tied": old.hex(), "p.1": small.hex()}
        assert (told[5][0], told[7][0]) == (other.hex(), old.hex())
        if rank in elsewhere:
            assert [gathered[0] for gathered in told[9:]] == [old.hex(), old.hex(), small.hex()]


def case(kind: LayoutKind, *parameters: Parameter, dim: int = 0, **more: Any) -> Case:
    program = more.pop("program", (Operation("register"),))
    return Case((Group("main", (0, 1)),), parameters, program, LayoutSpec(kind, dim=dim), **more)


OTHER_SHAPE = (Divergence(1, "shape", "p", (6,)),)
REDUCED = (Operation("register"), Operation("reduce"))
STEPPED = (*REDUCED, Operation("step", value=3))
# What the adapter's policy says, the case, and a word of the reason.
ANSWERS: dict[str, list[tuple[str, Case, str]]] = {
    "dtensor": [
        ("accept", case("chunk", Parameter("p", (5, 3))), "chunk"),
        ("accept", case("chunk", Parameter("p", (5, 3)), dim=1), "chunk"),
        ("accept", case("chunk", Parameter("p", (5,), "int32", frozen=True)), "chunk"),
        ("unspecified", case("chunk", Parameter("p", ())), "no dimension"),
        ("refuse", case("chunk", Parameter("p", (5,), "int32")), "gradients"),
        ("accept", case("chunk", Parameter("p", (5,), "bfloat16", grad_dtype="float32"), program=REDUCED), "chunk"),
        (
            "unspecified",
            case("chunk", Parameter("p", (5,), "bfloat16", grad_dtype="float32"), program=STEPPED),
            "autog",
        ),
        ("unspecified", case("chunk", Parameter("p", (5,)), divergences=OTHER_SHAPE), "compares nothing"),
    ],
    "fsdp1": [
        ("accept", case("flat_padded", Parameter("p", (5, 3))), "padded"),
        ("accept", case("flat_padded", Parameter("p", (1,)), program=REDUCED), "padded"),
        ("unspecified", case("flat_padded", Parameter("p", (3,), strides=(2,))), "gaps"),
        ("refuse", case("flat_padded", Parameter("p", ())), "scalar"),
        ("refuse", case("flat_padded", Parameter("p", (5,), "int32", frozen=True)), "flattened"),
        (
            "unspecified",
            case("flat_padded", Parameter("p", (5,), "bfloat16", grad_dtype="float32"), program=REDUCED),
            "autograd",
        ),
        ("unspecified", case("flat_padded", Parameter("p", (5,)), divergences=OTHER_SHAPE), "compares nothing"),
    ],
}
ANSWERS["fsdp1_orig_params"] = ANSWERS["fsdp1"]


@each
def test_policy(five_ranks: Ranks, adapter: Adapter) -> None:
    rows = ANSWERS[adapter.name]
    asked = [adapter.name, [encode(row) for _, row, _ in rows]]
    answers = five_ranks.values(f"{SESSIONS}:policies", asked, world_size=5, deadline=120)[0]
    for (wanted, _, word), (said, reason, link) in zip(rows, answers, strict=True):
        assert (said, word in reason) == (wanted, True), reason
        assert link.startswith("https://")


@pytest.mark.parametrize(
    ("adapter", "accepted", "row"),
    [
        (adapter, answer == "accept", row)
        for adapter in ADAPTERS
        for answer, row, _ in ANSWERS[adapter.name]
        if answer != "unspecified"
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_policy_keeps_its_word(five_ranks: Ranks, adapter: Adapter, accepted: bool, row: Case) -> None:
    """What is accepted is registered, what is refused raises the same on every rank."""
    p = row.parameters[0]
    made = specs([(p.shape, p.dtype)], frozen=p.frozen)
    blobs = [bytes(p.numel * ITEMSIZE[p.dtype])]
    told = adapter.run(five_ranks, row.main.ranks, [["register", made]], blobs, row.layout.dim)
    assert all((answer is None) == accepted for (answer,) in told), told
    assert len({answer for (answer,) in told}) == 1


SHAPES = [(1,), (5,), (5, 3), (2, 3, 4), (1, 7, 1), (0,), (0, 3), (3, 0), (151_936, 4096), (2**31 + 11, 2**31 - 1)]
SHAPES += sorted({p.shape for name in ("llama3-8b", "deepseek-v3", "gpt2") for p in shape_set(name).parameters})


@each
def test_layout_at_true_size(five_ranks: Ranks, adapter: Adapter) -> None:
    """Its own cut of a parameter without memory is the model's, run for run."""
    asked = [
        (shape, rank, world_size, {"dim": dim} if adapter is DTENSOR else {})
        for shape in SHAPES
        for world_size in (1, 2, 3, 8)
        for dim in range(len(shape) if adapter is DTENSOR else 1)
        for rank in range(world_size)
    ]
    told = five_ranks.values(f"{SESSIONS}:layouts", [adapter.name, asked], world_size=5, deadline=120)[0]
    for (shape, rank, world_size, named), claim in zip(asked, told, strict=True):
        model = Chunk(shape, world_size, **named) if adapter is DTENSOR else FlatPadded(shape, world_size)
        assert claim["shard_numel"] == model.shard_numel(rank)
        assert claim["padded_numel"] == model.padded_numel
        runs = [(run.local, run.start, run.length, run.stride, run.count) for run in model.runs(rank)]
        assert [one_block(run) for run in claim["runs"]] == runs


def one_block(run: Sequence[int]) -> tuple[int, ...]:
    """A run of one block has no stride; the model says its length."""
    local, start, length, stride, count = run
    return (local, start, length * count, length * count, 1) if count == 1 or stride == length else tuple(run)
