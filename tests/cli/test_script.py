"""The script that shows a case without this project: the same contents, and the same verdict."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference import DTYPES, partition
from shardproof.case import Case, Group, LayoutSpec, Operation, Parameter
from shardproof.case_file import to_json
from shardproof.layouts import KINDS, cuts_of
from shardproof.script import as_script
from shardproof.strategies import cases
from shardproof.values import as_bytes, moved
from tests.search.planted import describe

ROOT = Path(__file__).parents[2]
CASE = Case(
    groups=(Group("main", (1, 2)), Group("other", (0, 1, 2))),
    parameters=(
        Parameter("p0", (5,), "bfloat16"),
        Parameter("p1", (4, 3), strides=(1, 4), storage_offset=3),
        Parameter("p2", (4, 3), strides=(1, 4), storage_offset=3, tied_to="p1"),
    ),
    program=(
        *(Operation(kind) for kind in ("register", "layout", "gather", "update", "prefetch", "wait", "use", "release")),  # type: ignore[arg-type]  # kinds by name
        Operation("accumulate"),
        Operation("reduce"),
        Operation("reduce", reduction="mean"),
        Operation("norm"),
        Operation("save"),
        Operation("update"),
        Operation("load", group="other"),
        Operation("gather", group="other"),
    ),
    seed=3,
)
# Cuts the tail that does not fit, as floor division does.
FLOORS = """
import torch
import torch.distributed as dist


def shard(full, rank, world_size):
    length = full.numel() // world_size
    return full.reshape(-1)[rank * length : (rank + 1) * length].clone()


def gather(shard, shape, group):
    pieces = [torch.empty_like(shard) for _ in range(dist.get_world_size(group))]
    dist.all_gather(pieces, shard, group=group)
    whole = torch.zeros(torch.Size(shape).numel(), dtype=shard.dtype)
    found = torch.cat(pieces)
    whole[: found.numel()] = found
    return whole.reshape(shape)
"""


def run(script: Path) -> subprocess.CompletedProcess[str]:
    """In a folder of its own, with nothing of ours but the implementation on the path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(script.parent)))}
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=script.parent,
        env=environment,
        check=False,
        timeout=200,
    )


def test_as_expected(tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text(as_script(CASE, "gpu_impl"))
    done = run(script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "everything is as expected"
    assert "rank 2 of 3 in other, step 15 gather: done" in done.stdout


# A layout, and a correct implementation of it.
LAYOUTS: list[tuple[str, LayoutSpec, int]] = [
    ("Buckets", LayoutSpec("bucket", 2, 0, 13, 4, 3), 3),
    ("Ragged", LayoutSpec("ragged", units=(3, 2)), 3),
    ("Grouped", LayoutSpec("grouped", 2, group_size=2), 4),
    ("GroupedChunk", LayoutSpec("grouped_chunk", dim=1, group_size=2), 4),
    ("TwoDimensional", LayoutSpec("two_dimensional", 2, 1, mesh=(1, 2)), 4),
]


@pytest.mark.parametrize(("name", "layout", "other"), LAYOUTS, ids=[name for name, _, _ in LAYOUTS])
def test_every_layout_is_cut_as_expected(tmp_path: Path, name: str, layout: LayoutSpec, other: int) -> None:
    parameters = (Parameter("p0", (5, 3)), *CASE.parameters[1:], Parameter("p3", (1, 7), grad_buffer="partition"))
    groups = (Group("main", (1, 2)), Group("other", tuple(range(other))))
    script = tmp_path / "show.py"
    case = replace(CASE, parameters=parameters, groups=groups, layout=layout)
    script.write_text(as_script(case, f"shardproof.fault_models.cutting:{name}"))
    done = run(script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "everything is as expected"


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_same_cut(monkeypatch: pytest.MonkeyPatch, kind: str, data: st.DataObject) -> None:
    standalone = importlib.import_module("shardproof.standalone")
    case = data.draw(cases(describe(layouts=(kind,), alignments=(1, 2, 3)), range(1, 5)))
    if case.divergences or any(parameter.numel > 2**20 for parameter in case.parameters):
        return
    monkeypatch.setattr(standalone, "CASE", to_json(case))
    for size in {len(group.ranks) for group in case.groups}:
        cuts = cuts_of(case.layout, case.parameters, size)
        for p in case.parameters:
            full = torch.arange(p.numel).reshape(p.shape)
            said = standalone.options(p.id, full, size)
            assert {name: tuple(said[name]) if name == "shapes" else said[name] for name in said} == cuts[p.id].options
            for rank, shard in enumerate(partition(full.numpy(), cuts[p.id].layout)):
                assert standalone.cut(full, rank, size, p.id).reshape(-1).tolist() == shard.tolist()


TRAINING = (
    *(Operation(kind) for kind in ("register", "accumulate", "forward", "backward", "norm")),  # type: ignore[arg-type]  # kinds by name
    Operation("clip", value=2),
    Operation("step", value=5),
    Operation("gather"),
    Operation("reduce"),
    Operation("step", value=4),
    Operation("save"),
    Operation("update"),
    *(Operation(kind, group="other", value=3) for kind in ("load", "gather", "forward", "backward", "step", "gather")),  # type: ignore[arg-type]
)


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("gpu_impl", 0, "everything is as expected"),
        ("shardproof.fault_models.training:GradientsAveraged", 1, "backward: DIFFERENT: p0 element 0 is"),
        ("shardproof.fault_models.training:LossOfOneRank", 1, "forward: DIFFERENT: loss is"),
        ("shardproof.fault_models.training:LastShardNotStepped", 1, "gather: DIFFERENT: p0 element"),
    ],
)
def test_training(tmp_path: Path, target: str, code: int, said: str) -> None:
    script = tmp_path / "show.py"
    script.write_text(as_script(replace(CASE, program=TRAINING), target))
    done = run(script)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout


def test_a_lost_tail(tmp_path: Path) -> None:
    (tmp_path / "floors.py").write_text(FLOORS)
    case = Case((Group("main", (0, 1)),), (Parameter("p", (5,)),), (Operation("register"), Operation("gather")))
    script = tmp_path / "show.py"
    script.write_text(as_script(case, "floors:nothing").replace("floors:nothing", "floors"))
    done = run(script)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "rank 0 of 2, step 1 gather: DIFFERENT: p element 4 is 0x00000000, expected 0x" in done.stdout
    assert done.stdout.splitlines()[-1] == "DIFFERENT"


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_contents(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    standalone = importlib.import_module("shardproof.standalone")
    monkeypatch.setattr(standalone, "CASE", {"seed": 7})
    for numel in (0, 1, 23):
        tensor = standalone.contents("p#registered", numel, dtype)
        assert standalone.raw(tensor) == as_bytes(moved(7, "p#registered", (numel,), dtype))
