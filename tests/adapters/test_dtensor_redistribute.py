"""DTensors moved between placements, built of uneven pieces and reduced: bit for bit as without shards."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from shardproof.pytest_plugin import Ranks
from tests.adapters.plain import ITEMSIZE

_JOBS = str(Path(__file__).with_name("redistribution.py"))
Mesh = list[int] | list[list[int]]
Shape = tuple[int, ...]

LINES: list[Mesh] = [[2], [3, 4], [1, 2, 3], [0, 1, 2, 3]]
SQUARE: Mesh = [[1, 2], [3, 4]]
PLACED = ("R", "S0", "S1", "P")
STORED = ("R", "S0", "S1")
STRIDED = [("X0/2", "S0"), ("X1/2", "S1")]


def run(ranks: Ranks, mesh: Mesh, jobs: Sequence[dict[str, Any]], *, flattened: bool = False) -> list[list[Any]]:
    """What the ranks of the mesh answered to each job, in the mesh's order."""
    payload = {"mesh": mesh, "jobs": jobs, "flattened": flattened}
    answers = ranks.values(f"{_JOBS}:jobs", payload, world_size=5, deadline=120)
    return [[answers[rank][at] for rank in np.ravel(mesh)] for at in range(len(jobs))]


def stored(whole: npt.NDArray[Any], mesh: Shape, place: Shape, placed: Sequence[str]) -> npt.NDArray[Any]:
    """What the rank at that place has of the whole: cut by one mesh dim after the other, what is strided last."""
    dims = sorted(range(len(placed)), key=lambda dim: placed[dim][0] == "X")
    for dim in dims:
        if placed[dim] != "R":
            axis = int(placed[dim][1])
            length = -(-whole.shape[axis] // mesh[dim])
            start = min(place[dim] * length, whole.shape[axis])
            whole = whole.take(range(start, min(start + length, whole.shape[axis])), axis)
    return whole


def told(array: npt.NDArray[Any]) -> str:
    return f"{list(array.shape)} {array.tobytes().hex()}"


def check(
    mesh: Mesh, job: dict[str, Any], answers: list[Any], placed: Sequence[str], *, flattened: bool = False
) -> None:
    """Every rank stores what it should, and gathers the whole."""
    shape = (int(np.size(mesh)),) if flattened else np.shape(mesh)
    for place, answer in zip(np.ndindex(shape), answers, strict=True):
        assert isinstance(answer, list), (job, place, answer)
        local, full, whole = answer
        raw = bytes.fromhex(whole.rpartition(" ")[2])
        elements = np.frombuffer(raw, f"V{ITEMSIZE[job['dtype']]}").reshape(job["shape"])
        assert full == whole, (job, place)
        assert local == told(stored(elements, shape, place, placed)), (job, place)


def moves(shape: Shape, dtype: str, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[dict[str, Any]]:
    return [{"kind": "redistribute", "shape": shape, "dtype": dtype, "placed": a, "to": b} for a, b in pairs]


SIZES: list[tuple[Shape, str]] = [
    ((5, 3), "float64"),
    ((1, 4), "bfloat16"),
    ((0, 3), "float32"),
    ((3, 7), "int64"),
    ((2, 1), "float32"),
    ((3, 0), "float16"),
]


@pytest.mark.parametrize("mesh", LINES, ids=str)
def test_from_any_placement_to_any_other(five_ranks: Ranks, mesh: Mesh) -> None:
    pairs = [((a,), (b,)) for a in PLACED for b in STORED]
    jobs = [job for shape, dtype in SIZES for job in moves(shape, dtype, pairs)]
    for job, answers in zip(jobs, run(five_ranks, mesh, jobs), strict=True):
        check(mesh, job, answers, job["to"])


@pytest.mark.parametrize(("shape", "dtype"), SIZES[:3], ids=str)
def test_over_two_mesh_dims(five_ranks: Ranks, shape: Shape, dtype: str) -> None:
    """Both dims by rows, both by columns, one each way, replicas and sums along either, and strided shards."""
    sources = [*itertools.product(PLACED, PLACED), *STRIDED]
    pairs = list(itertools.product(sources, [*itertools.product(STORED, STORED), *STRIDED]))
    jobs = moves(shape, dtype, pairs)
    for job, answers in zip(jobs, run(five_ranks, SQUARE, jobs), strict=True):
        check(SQUARE, job, answers, job["to"])


@pytest.mark.parametrize("mesh", [[[1, 2, 3]], [[1], [2], [3]]], ids=str)
def test_over_a_mesh_dim_of_one(five_ranks: Ranks, mesh: Mesh) -> None:
    pairs = list(itertools.product(itertools.product(("S0", "P"), repeat=2), itertools.product(STORED, STORED)))
    jobs = moves((5, 2), "float64", pairs)
    for job, answers in zip(jobs, run(five_ranks, mesh, jobs), strict=True):
        check(mesh, job, answers, job["to"])


def test_over_a_flattened_mesh(five_ranks: Ranks) -> None:
    """Four ranks in one line, where the two dims would cut 5 rows otherwise."""
    pairs = [((a,), (b,)) for a in PLACED for b in STORED]
    jobs = [job for shape, dtype in SIZES for job in moves(shape, dtype, pairs)]
    for job, answers in zip(jobs, run(five_ranks, SQUARE, jobs, flattened=True), strict=True):
        check(SQUARE, job, answers, job["to"], flattened=True)


@pytest.mark.parametrize("mesh", [*LINES, SQUARE], ids=str)
def test_from_local_of_uneven_pieces(five_ranks: Ranks, mesh: Mesh) -> None:
    placed = itertools.product(STORED, repeat=np.ndim(mesh))
    kinds = itertools.product(SIZES, placed)
    jobs = [{"kind": "from_local", "shape": shape, "dtype": dtype, "placed": p} for (shape, dtype), p in kinds]
    for job, answers in zip(jobs, run(five_ranks, mesh, jobs), strict=True):
        check(mesh, job, answers, job["placed"])


def test_fsdp2_under_tensor_parallelism(five_ranks: Ranks) -> None:
    """Rows are cut of what the tensor ranks have, whose last one must have some (fsdp2_tensor_parallel_empty.py)."""
    rows = [((size, 2), 0) for size in range(1, 10)]
    columns = [((size, 5), 1) for size in (1, 2, 3, 5)]
    jobs = [
        {"kind": "under_tensor_parallelism", "shape": shape, "dtype": "float32", "dim": dim}
        for shape, dim in (*rows, *columns)
    ]
    for job, answers in zip(jobs, run(five_ranks, SQUARE, jobs), strict=True):
        check(SQUARE, job, answers, ("X0/2", "S0") if job["dim"] == 0 else ("S0", "S1"))


# Reductions that an empty shard must not take part in, and those that DTensor does not do where a shard is empty
# (findings/dtensor_amin_empty_shard.py and its neighbours).
NEUTRAL: list[tuple[str, dict[str, Any]]] = [("sum", {}), ("mean", {}), ("prod", {}), ("norm", {"ord": 1})]
FULL: list[tuple[str, dict[str, Any]]] = [
    ("amin", {}),
    ("amax", {}),
    ("argmin", {}),
    ("argmax", {}),
    ("norm", {"ord": float("inf")}),
    ("norm", {"ord": float("-inf")}),
]


def reductions(
    names: Sequence[tuple[str, dict[str, Any]]], shapes: Sequence[Shape], placed: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    return [
        {"kind": "reduce", "shape": shape, "dtype": "float64", "placed": p, "name": name, "more": more | along}
        for name, more in names
        for shape in shapes
        for p in placed
        for along in ({}, {"dim": 0}, {"dim": 1})
    ]


def reduced_alike(ranks: Ranks, mesh: Mesh, jobs: Sequence[dict[str, Any]]) -> None:
    for job, answers in zip(jobs, run(ranks, mesh, jobs), strict=True):
        for answer in answers:
            assert isinstance(answer, list), (job, answer)
            assert answer[0] == answer[1], job


@pytest.mark.parametrize("mesh", [[2], [1, 2, 3]], ids=str)
def test_reductions_over_a_line(five_ranks: Ranks, mesh: Mesh) -> None:
    """The last rank of three is empty for 1, 2 and 4 rows or columns."""
    some = reductions(NEUTRAL, [(1, 3), (2, 2), (4, 5), (5, 1)], [["S0"], ["S1"], ["R"]])
    sums = reductions([("sum", {}), ("mean", {})], [(1, 3), (5, 2)], [["P"]])
    full = reductions(FULL, [(3, 5), (5, 6)], [["S0"], ["S1"], ["R"]])
    reduced_alike(five_ranks, mesh, [*some, *sums, *full])


def test_truths_over_a_line(five_ranks: Ranks) -> None:
    jobs = reductions([("any", {}), ("all", {})], [(1, 3), (2, 2), (4, 5)], [["S0"], ["S1"]])
    reduced_alike(five_ranks, [1, 2, 3], [job | {"dtype": "bool"} for job in jobs])


def test_reductions_over_two_mesh_dims(five_ranks: Ranks) -> None:
    placed = [("S0", "S0"), ("S0", "S1"), ("S1", "R"), ("R", "S1")]
    some = reductions(NEUTRAL, [(1, 3), (5, 4)], placed)
    sums = reductions([("sum", {}), ("mean", {})], [(3, 2)], [["P", "S0"], ["S1", "P"], ["P", "P"]])
    full = reductions(FULL, [(4, 7)], placed)
    reduced_alike(five_ranks, SQUARE, [*some, *sums, *full])
