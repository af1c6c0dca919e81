"""FSDP2 through its adapter, on ranks, against bytes and integers."""

from __future__ import annotations

from math import prod, sqrt
from pathlib import Path
from typing import Any

import pytest

from reference import Chunk
from shardproof.case import Case, Divergence, Group, LayoutSpec, Operation, Parameter
from shardproof.case_file import encode
from shardproof.model_shapes import shape_set
from shardproof.pytest_plugin import Ranks
from tests.adapters.plain import GROUPS, ITEMSIZE, chunk_elements, pick, random_bytes
from tests.adapters.running import SESSIONS, Told, run_on_ranks, specs

# (shape, dim, dtype). Dims other than 0 are even for every group size up to 4.
TRAINED = [
    ((1,), 0, "float32"),
    ((5,), 0, "float32"),
    ((2, 3), 0, "float32"),
    ((7, 1, 2), 0, "float32"),
    ((0, 3), 0, "float32"),
    ((3, 0), 0, "float32"),
]
FROZEN = [
    ((5, 2), 0, "float64"),
    ((3,), 0, "bool"),
    ((0,), 0, "float16"),
    ((6, 3), 0, "bfloat16"),
    ((2,), 0, "int64"),
    ((9,), 0, "uint8"),
    ((4, 2), 0, "complex64"),
    ((5,), 0, "float8_e4m3fn"),
    ((3, 2), 0, "int16"),
]
COLUMNS = [((3, 12), 1, "float32"), ((2, 24), 1, "float32"), ((1, 12, 5), 1, "float32")]


def run(ranks: Ranks, group: tuple[int, ...], program: Told, blobs: list[bytes] = [], dim: int = 0) -> Told:  # noqa: B006  # read only
    """What each rank of the group was told, operation by operation."""
    return run_on_ranks(ranks, "fsdp2", group, program, blobs, {"kind": "chunk", "dim": dim})


@pytest.mark.parametrize("parameters", [TRAINED, FROZEN, COLUMNS], ids=["trained", "frozen", "columns"])
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_round_trip(five_ranks: Ranks, group: tuple[int, ...], parameters: list[Any]) -> None:
    """All of them in one module: shards are chunks, and what is gathered is what was sharded."""
    blobs = [random_bytes(shape, dtype, seed) for seed, (shape, _, dtype) in enumerate(parameters)]
    made = specs([(shape, dtype) for shape, _, dtype in parameters], frozen=parameters is FROZEN)
    dim = parameters[0][1]
    ids = [spec["id"] for spec in made]
    program: Told = [["register", made], *(["shard", id] for id in ids), *(["gather", id] for id in ids)]
    for rank, told in enumerate(run(five_ranks, group, program, blobs, dim)):
        assert len(told) == len(program), told[-1]
        shards, gathered = told[1 : 1 + len(ids)], told[1 + len(ids) :]
        for (shape, _, dtype), raw, shard, result in zip(parameters, blobs, shards, gathered, strict=True):
            own = pick(raw, ITEMSIZE[dtype], chunk_elements(shape, dim, len(group), rank))
            assert shard[0] == own.hex()
            assert result == [raw.hex(), list(shape), f"torch.{dtype}"]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_what_is_written_is_gathered(five_ranks: Ranks, group: tuple[int, ...]) -> None:
    """Updates while gathered and while not, of one of two parameters; prefetches; releases; tied names."""
    shape, size = (5, 3), len(group)
    old, other, *new = (random_bytes(shape, "bfloat16", seed) for seed in range(5))
    cut = [pick(raw, 2, chunk_elements(shape, 0, size, rank)) for raw in new for rank in range(size)]
    written = [list(range(2 + at * size, 2 + (at + 1) * size)) for at in range(len(new))]
    spec = {"shape": shape, "dtype": "bfloat16"}
    program = [
        [
            "register",
            [
                {"id": "a", "blob": 0, **spec},
                {"id": "b", "blob": 1, **spec},
                {"id": "c", "blob": 0, "tied_to": "a", **spec},
            ],
        ],
        ["update", "a", written[0]],
        ["available", "a"],
        ["gather", "a"],
        ["gather", "c"],
        ["gather", "b"],
        ["available", "a"],
        ["update", "a", written[1]],
        ["gather", "b"],
        ["gather", "a"],
        ["release", "a"],
        ["release", "b"],
        ["release", "c"],
        ["available", "a"],
        ["update", "a", written[2]],
        ["prefetch", ["b", "a"]],
        ["wait", "b"],
        ["wait", "a"],
    ]
    gathered = {3: new[0], 4: new[0], 5: other, 8: other, 9: new[1], 16: other, 17: new[2]}
    available = {2: False, 6: True, 13: False}
    for told in run(five_ranks, group, program, [old, other, *cut]):
        assert len(told) == len(program), told[-1]
        assert {at: bytes.fromhex(told[at][0]) for at in gathered} == gathered
        assert {at: told[at] for at in available} == available


# (parameter's dtype, dtype of the reduction)
PRECISIONS = [("float32", None), ("float64", None), ("float16", None), ("bfloat16", None), ("bfloat16", "float32")]


@pytest.mark.parametrize(("dtype", "comm_dtype"), PRECISIONS)
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_gradients(five_ranks: Ranks, group: tuple[int, ...], dtype: str, comm_dtype: str | None) -> None:
    """Sums and means over ranks, accumulated ones included, of small integers; and their norm."""
    size = len(group)
    shapes = {"a": (5, 2), "b": (1,), "c": (4,)}
    more = {"comm_dtype": comm_dtype} if comm_dtype else {}
    made = [
        {"id": id, "shape": shape, "dtype": dtype, "blob": at, **more} for at, (id, shape) in enumerate(shapes.items())
    ]
    blobs = [random_bytes(shape, dtype, 1) for shape in shapes.values()]

    def numbers(id: str, round: int) -> list[list[int]]:
        """One list a rank, different everywhere, multiples of the world size."""
        return [[size * (1 + (at + 3 * rank + round) % 5) for at in range(prod(shapes[id]))] for rank in range(size)]

    def grads(round: int, *ids: str) -> dict[str, Any]:
        return {id: (shapes[id], dtype, numbers(id, round)) for id in ids}

    def total(id: str, *rounds: int) -> list[int]:
        return [sum(column) for column in zip(*(each for round in rounds for each in numbers(id, round)), strict=True)]

    program = [
        ["register", made],
        ["reduce", grads(0, "a", "b", "c"), "sum"],
        ["norm"],
        ["accumulate", grads(1, "a", "c")],
        ["accumulate", grads(2, "a", "c")],
        ["reduce", grads(3, "a", "c"), "mean"],
        ["reduce", grads(4, "b"), "sum"],
        ["norm"],
        ["gather", "a"],
    ]
    squares = {
        2: sum(value * value for id in shapes for value in total(id, 0)),
        7: sum(value * value for value in total("b", 4)),
    }
    for rank, told in enumerate(run(five_ranks, group, program, blobs)):
        assert len(told) == len(program), told[-1]
        own = {id: chunk_elements(shape, 0, size, rank) for id, shape in shapes.items()}
        assert told[1] == {id: [[total(id, 0)[at] for at in own[id]], f"torch.{dtype}"] for id in shapes}
        means = {id: [total(id, 1, 2, 3)[at] // size for at in own[id]] for id in ("a", "c")}
        assert told[5] == {id: [mean, f"torch.{dtype}"] for id, mean in means.items()}
        assert told[6] == {"b": [[total("b", 4)[at] for at in own["b"]], f"torch.{dtype}"]}
        assert [told[2], told[7]] == [sqrt(squares[2]), sqrt(squares[7])]
        assert told[8][0] == blobs[0].hex()


@pytest.mark.parametrize("group", [(2,), (3, 4), (1, 2, 3)], ids=str)
def test_gradients_by_columns(five_ranks: Ranks, group: tuple[int, ...]) -> None:
    shape, size = (2, 6), len(group)
    numbers = [[at + 20 * rank for at in range(prod(shape))] for rank in range(size)]
    made = [{"id": "a", "shape": shape, "dtype": "float32", "blob": 0}]
    program: Told = [["register", made], ["reduce", {"a": (shape, "float32", numbers)}, "sum"]]
    totals = [sum(column) for column in zip(*numbers, strict=True)]
    for rank, told in enumerate(run(five_ranks, group, program, [bytes(4 * 12)], dim=1)):
        assert told[1] == {"a": [[totals[at] for at in chunk_elements(shape, 1, size, rank)], "torch.float32"]}


@pytest.mark.parametrize("elsewhere", [(1, 2), (1,), (1, 2, 3)], ids=str)
def test_saved_and_loaded_at_another_world_size(five_ranks: Ranks, tmp_path: Path, elsewhere: tuple[int, ...]) -> None:
    group, shape = (1, 2, 3), (5, 3)
    old, other, zeros, frozen = (
        random_bytes(shape, "float32", 0),
        random_bytes(shape, "float32", 1),
        bytes(60),
        b"\1\2\3",
    )
    cut = [pick(other, 4, chunk_elements(shape, 0, len(group), rank)) for rank in range(len(group))]
    path = str(tmp_path / "saved")

    def made(first: int, second: int) -> list[dict[str, Any]]:
        return [
            {"id": "a.weight", "shape": shape, "dtype": "float32", "blob": first},
            {"id": "b", "shape": (3,), "dtype": "uint8", "frozen": True, "blob": second},
        ]

    program = [
        ["register", made(0, 1)],
        ["save", path],
        ["read", path],
        ["update", "a.weight", [4, 5, 6]],
        ["gather", "a.weight"],
        ["load", path],
        ["gather", "a.weight"],
        ["load elsewhere", elsewhere, made(2, 3), path],
        ["gather", "a.weight"],
        ["gather", "b"],
    ]
    for rank, told in zip(group, run(five_ranks, group, program, [old, frozen, zeros, bytes(3), *cut]), strict=True):
        assert told[2] == {"a.weight": old.hex(), "b": frozen.hex()}
        assert (told[4][0], told[6][0]) == (other.hex(), old.hex())
        if rank in elsewhere:
            assert (told[8][0], told[9][0]) == (old.hex(), frozen.hex())


def case(*parameters: Parameter, world_size: int = 2, dim: int = 0, **more: Any) -> Case:
    program = more.pop("program", (Operation("register"),))
    return Case((Group("main", tuple(range(world_size))),), parameters, program, LayoutSpec("chunk", dim=dim), **more)


def named(each: Case) -> str:
    p = each.parameters[0]
    return (
        f"{p.dtype}{list(p.shape)}{'' if p.strides is None else p.strides} dim {each.layout.dim} over {each.world_size}"
    )


ACCEPTED = [
    case(Parameter("p", (5, 3))),
    case(Parameter("p", (1,)), world_size=4),
    case(Parameter("p", (0, 2))),
    case(Parameter("p", (3, 4)), dim=1),
    case(Parameter("p", (1, 3), strides=(7, 1))),
    case(Parameter("p", (5,), storage_offset=3)),
    case(Parameter("p", (5,), "int32", frozen=True)),
    case(Parameter("p", (3, 5), strides=(5, 1))),
]
REFUSED = [
    (case(Parameter("p", ())), "scalar"),
    (case(Parameter("p", (3, 5)), dim=1), "evenly"),
    (case(Parameter("p", (3, 5), strides=(1, 3))), "not contiguous"),
    (case(Parameter("p", (3,), strides=(2,))), "not contiguous"),
    (case(Parameter("p", (5,), "int32")), "gradients"),
    (case(Parameter("p", (5,), "bool"), world_size=1), "gradients"),
]
REDUCE = (Operation("register"), Operation("reduce"))
UNSPECIFIED = [
    case(Parameter("p", (5,)), divergences=(Divergence(1, "shape", "p", (6,)),)),
    Case(
        (Group("main", (0, 1)), Group("other", (0, 1, 2))),
        (Parameter("p", (3, 4)),),
        (Operation("register"), Operation("save"), Operation("load", group="other")),
        LayoutSpec("chunk", dim=1),
    ),
    case(Parameter("p", (5,), "bfloat16", grad_dtype="float32"), program=REDUCE),
]


def test_policy(five_ranks: Ranks) -> None:
    cases = [*ACCEPTED, *(row for row, _ in REFUSED), *UNSPECIFIED]
    asked = ["fsdp2", [encode(each) for each in cases]]
    answers = five_ranks.values(f"{SESSIONS}:policies", asked, world_size=5, deadline=120)[0]
    wanted = ["accept"] * len(ACCEPTED) + ["refuse"] * len(REFUSED) + ["unspecified"] * len(UNSPECIFIED)
    assert [answer for answer, _, _ in answers] == wanted
    for (_, reason, link), (_, expected) in zip(answers[len(ACCEPTED) :], REFUSED, strict=False):
        assert expected in reason
        assert link.startswith("https://")


@pytest.mark.parametrize("accepted", ACCEPTED, ids=named)
def test_what_the_policy_accepts_is_accepted(five_ranks: Ranks, accepted: Case) -> None:
    assert [told[0] for told in registered(five_ranks, accepted)] == [None] * accepted.world_size


@pytest.mark.parametrize("refused", [row for row, _ in REFUSED], ids=named)
def test_what_the_policy_refuses_is_refused_everywhere(five_ranks: Ranks, refused: Case) -> None:
    told = registered(five_ranks, refused)
    assert all(isinstance(answer, str) for (answer,) in told)
    assert len({answer for (answer,) in told}) == 1


def registered(ranks: Ranks, each: Case) -> Told:
    p = each.parameters[0]
    spec = {"id": p.id, "shape": p.shape, "dtype": p.dtype, "blob": 0, "frozen": p.frozen}
    strides = {"strides": p.strides} if p.strides is not None else {}
    room = bytes(64 * ITEMSIZE[p.dtype]) if strides else bytes(p.numel * ITEMSIZE[p.dtype])
    return run(ranks, each.main.ranks, [["register", [{**spec, **strides}]]], [room], each.layout.dim)


SHAPES = [(1,), (5,), (0, 3), (3, 0), (5, 3), (2, 3, 4), (1, 7, 1), (151_936, 4096), (2**31 + 11, 2**31 - 1)]
SHAPES += sorted({p.shape for name in ("llama3-8b", "deepseek-v3", "gpt2") for p in shape_set(name).parameters})


def test_layout_at_true_size(five_ranks: Ranks) -> None:
    """FSDP2's own cut of a tensor without memory is the model's, run for run."""
    asked = [
        (shape, rank, world_size, {"dim": dim})
        for shape in SHAPES
        for world_size in (1, 2, 3, 8)
        for dim in range(len(shape))
        for rank in range(world_size)
    ]
    told = five_ranks.values(f"{SESSIONS}:layouts", ["fsdp2", asked], world_size=5, deadline=120)[0]
    for (shape, rank, world_size, named), claim in zip(asked, told, strict=True):
        model = Chunk(shape, world_size, **named)
        runs = [[run.local, run.start, run.length, run.stride, run.count] for run in model.runs(rank)]
        assert claim == {"shard_numel": model.shard_numel(rank), "padded_numel": model.padded_numel, "runs": runs}
