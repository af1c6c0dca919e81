"""Checkpoints hold true shapes, load at any world size, and are refused on every rank or on none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import gpu_impl
from tests.gpu_impl.support import MOVED, Answer, bits, given, ramp, raw, registered, session_of

SHAPES = {"uneven": (7,), "matrix": (3, 5), "one": (1,), "scalar": (), "empty": (0, 3), "even": (12,)}


def wholes(seed: int) -> dict[str, torch.Tensor]:
    """Every dtype, every kind of shape."""
    odd = {id: bits(shape, torch.float32, seed + number) for number, (id, shape) in enumerate(SHAPES.items())}
    return odd | {name: bits((5,), getattr(torch, name), seed) for name in MOVED}


def write(context: Any, payload: dict[str, Any], _blobs: Any) -> Answer:
    """Save; what was gathered stays gathered, what was not is not."""
    session = registered(context, payload["world_size"], wholes(1), alignment=payload["alignment"])
    session.register([given("tied", wholes(1)["uneven"], tied_to="uneven")])
    session.scalars["moment"] = torch.tensor(0.25, dtype=torch.float64)
    held = session.gather("matrix")
    session.prefetch(["one"])
    session.save(payload["path"])
    assert torch.equal(held, session.gather("matrix")) or held.isnan().any()
    assert [id for id in SHAPES if session.available(id)] == ["matrix", "one"]
    assert {id: raw(whole) for id, whole in session.read(payload["path"]).items()} == {
        id: raw(whole) for id, whole in (wholes(1) | {"tied": wholes(1)["uneven"]}).items()
    }
    return None, ()


def load(context: Any, payload: dict[str, Any], _blobs: Any) -> Answer:
    """Load over other contents; every parameter is what was saved, in the memory it had."""
    session = registered(context, payload["world_size"], wholes(100), alignment=payload["alignment"])
    session.register([given("tied", wholes(100)["uneven"], tied_to="uneven")])
    held = session.gather("even")
    session.prefetch(["uneven"])
    where = {id: session.shard(id).data_ptr() for id in wholes(1)}
    session.load(payload["path"])
    assert raw(held) == raw(wholes(100)["even"])
    for id, whole in wholes(1).items():
        assert not session.available(id)
        assert raw(session.gather(id)) == raw(whole)
        assert session.shard(id).data_ptr() == where[id]
    assert raw(session.gather("tied")) == raw(wholes(1)["uneven"])
    moment = session.scalars["moment"]
    assert isinstance(moment, torch.Tensor)
    assert (moment.shape, moment.dtype, moment.item()) == ((), torch.float64, 0.25)
    return None, ()


@pytest.mark.parametrize("before", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [1, 2, 4])
def test_saved_at_one_world_size_and_loaded_at_another(ranks: Any, tmp_path: Path, before: int, after: int) -> None:
    path = str(tmp_path / "saved")
    ranks.values(write, {"world_size": before, "alignment": before, "path": path}, world_size=before)
    ranks.values(load, {"world_size": after, "alignment": 5 - after, "path": path}, world_size=after)
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved"]


def test_the_file_holds_true_shapes_and_nothing_else(ranks: Any, tmp_path: Path) -> None:
    path = tmp_path / "saved"
    ranks.values(write, {"world_size": 4, "alignment": 64, "path": str(path)}, world_size=4)
    content = torch.load(path, weights_only=True)
    assert content["format"] == "gpu_impl checkpoint 1"
    assert content["parameters"]["tied"].data_ptr() == content["parameters"]["uneven"].data_ptr()
    for id, whole in wholes(1).items():
        found = content["parameters"][id]
        assert found.shape == whole.shape
        assert found.untyped_storage().nbytes() == whole.nbytes
        assert raw(found) == raw(whole)


def other(**changes: torch.Tensor | None) -> Callable[[], Any]:
    """A file of the usual two parameters, but for these changes."""
    return lambda: {
        "format": "gpu_impl checkpoint 1",
        "parameters": {
            id: whole for id, whole in ({"a": ramp(5), "b": ramp(3)} | changes).items() if whole is not None
        },
        "scalars": {},
    }


# What rank 1 finds in the place of the file where rank 0 finds the usual one (or both, at "both"), and what all say.
REFUSED: dict[str, tuple[str, Callable[[], Any], str]] = {
    "another shape": (
        "both",
        other(a=ramp(6)),
        r'parameter "a": shape is \(6,\) in the file, \(5,\) registered on ranks 0-1',
    ),
    "transposed shape": ("both", other(b=ramp(3, 1)), r'"b": shape is \(3, 1\) in the file, \(3,\) registered'),
    "another dtype": ("rank 1", other(b=ramp(3).half()), r'"b": dtype is torch.float16 in the file.* on rank 1'),
    "one less": ("both", other(b=None), r'parameter "b" is registered but not in the file'),
    "one more": ("both", other(c=ramp(1)), r'parameter "c" is in the file but not registered'),
    "no checkpoint": ("rank 1", lambda: {"a": ramp(5)}, r"format is None, expected 'gpu_impl checkpoint 1' on rank 1"),
    "no file": ("rank 1", lambda: None, r"cannot be read: FileNotFoundError.* on rank 1"),
    "no torch file": ("rank 1", lambda: b"\x00" * 100, r"cannot be read: .* on rank 1"),
    "cut short": ("rank 1", lambda: "half", r"cannot be read: .* on rank 1"),
}


def refuse(context: Any, payload: dict[str, Any], _blobs: Any) -> Answer:
    """Refused with one text; parameters, views and scalars are what they were."""
    where, content, _ = REFUSED[payload["name"]]
    path = Path(payload["folder"]) / f"of rank {context.rank}"
    torch.save(other()(), path)
    if where == "both" or context.rank == 1:
        found = content()
        whole = path.read_bytes()
        path.unlink()
        if found == "half":
            path.write_bytes(whole[: len(whole) // 2])
        elif isinstance(found, bytes):
            path.write_bytes(found)
        elif found is not None:
            torch.save(found, path)
    session = registered(context, 2, {"a": ramp(5, start=50), "b": ramp(3, start=60)})
    session.scalars["kept"] = 3
    held = session.gather("a")
    with pytest.raises(gpu_impl.CheckpointError, match=r"loading from .* was refused on all 2 ranks") as caught:
        session.load(path)
    assert session.available("a")
    assert torch.equal(held, ramp(5, start=50))
    assert torch.equal(session.gather("b"), ramp(3, start=60))
    assert session.scalars == {"kept": 3}
    return str(caught.value).partition("ranks, nothing")[2], ()


@pytest.mark.parametrize("name", REFUSED)
def test_refused_on_every_rank(ranks: Any, tmp_path: Path, name: str) -> None:
    texts = ranks.values(refuse, {"name": name, "folder": str(tmp_path)}, world_size=2)
    assert len(set(texts)) == 1
    assert re.search(REFUSED[name][2], texts[0])


def untied(context: Any, path: str, _blobs: Any) -> Answer:
    """Two parameters of a file do not become one by loading."""
    group, session = context.group((0, 1)), session_of(context, 2)
    session.register([given("a", ramp(5)), given("b", ramp(5), tied_to="a")])
    if context.rank == 0:
        torch.save(other(b=ramp(5))(), path)
    torch.distributed.barrier(group)
    with pytest.raises(gpu_impl.CheckpointError, match=r'"b": shared with its tied ids is False in the file'):
        session.load(path)
    return None, ()


def test_tied_parameters_must_be_shared_in_the_file(ranks: Any, tmp_path: Path) -> None:
    ranks.values(untied, str(tmp_path / "saved"), world_size=2)


def unwritable(context: Any, folder: str, _blobs: Any) -> Answer:
    """Where rank 0 cannot write, everybody hears why, and a file of before is still whole."""
    session = registered(context, 2, {"a": ramp(5)})
    with pytest.raises(gpu_impl.CheckpointError) as caught:
        session.save(f"{folder}/nowhere/saved")
    session.save(f"{folder}/saved")
    session.update("a", session.shard("a") + 1)
    session.scalars["odd"] = lambda: None  # type: ignore[assignment]  # what torch.save cannot write
    with pytest.raises(gpu_impl.CheckpointError, match="on rank 0"):
        session.save(f"{folder}/saved")
    assert torch.equal(gpu_impl.read(f"{folder}/saved")["a"], ramp(5))
    return str(caught.value), ()


def test_a_save_that_fails(ranks: Any, tmp_path: Path) -> None:
    texts = ranks.values(unwritable, str(tmp_path), world_size=2)
    assert len(set(texts)) == 1
    assert "FileNotFoundError" in texts[0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved"]
