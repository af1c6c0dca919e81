"""Registration takes every padded shape, and refuses what differs, on every rank, with one text, in one exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gpu_impl
from tests.gpu_impl.support import Answer, Given, Watch, given, ramp, registered, session_of

A, B = ramp(5), ramp(2, 3, start=10)


class Unreadable:
    """A spec whose contents this rank cannot provide."""

    id, shape, dtype = "a", (5,), torch.float32

    @property
    def full(self) -> torch.Tensor:
        raise OSError("disk gone")

    shard = full


def usual() -> list[Any]:
    return [given("a", A), given("b", B)]


def with_shard(numel: int) -> Given:
    return given("a", A, shard=torch.zeros(numel))


# What rank 1 registers where the others register `usual()`, and what everybody is told: row of the known faults, the
# specs, the words. W is 2.
REFUSED: list[tuple[str, Callable[[], Any], tuple[str, ...]]] = [
    ("R3 a longer shard", lambda: [with_shard(4), usual()[1]], ('"a"', "(4,)", "expected (3,)", "on rank 1")),
    ("R3 a shorter shard", lambda: [with_shard(2), usual()[1]], ('"a"', "(2,)", "expected (3,)", "on rank 1")),
    (
        "R4 another shape, same p",
        lambda: [given("a", ramp(6)), usual()[1]],
        ('"a": shape', "(5,) on rank 0", "(6,) on rank 1"),
    ),
    (
        "R4 another shape, same numel",
        lambda: [usual()[0], given("b", ramp(3, 2))],
        ('"b": shape', "(2, 3) on rank 0", "(3, 2) on rank 1"),
    ),
    ("R5 another order", lambda: usual()[::-1], ("order", 'parameter "a" on rank 0', 'parameter "b" on rank 1')),
    (
        "R6 one less",
        lambda: usual()[:1],
        ("number of parameters is 2 on rank 0, 1 on rank 1", '"b": registered on rank 0, not on rank 1'),
    ),
    (
        "R6 one more",
        lambda: [*usual(), given("c", A)],
        ("2 on rank 0, 3 on rank 1", '"c": registered on rank 1, not on rank 0'),
    ),
    ("R6 none", list, ("2 on rank 0, 0 on rank 1",)),
    (
        "another id",
        lambda: [given("z", A), usual()[1]],
        ('"a": registered on rank 0, not on rank 1', '"z": registered on rank 1, not on rank 0'),
    ),
    (
        "another dtype",
        lambda: [given("a", A.double()), usual()[1]],
        ('"a": dtype', "torch.float32 on rank 0", "torch.float64 on rank 1"),
    ),
    (
        "another communication dtype",
        lambda: [given("a", A, comm_dtype=torch.bfloat16), usual()[1]],
        ('"a": comm_dtype', "None on rank 0", "torch.bfloat16 on rank 1"),
    ),
    (
        "frozen here only",
        lambda: [given("a", A, requires_grad=False), usual()[1]],
        ('"a": trainable', "True on rank 0", "False on rank 1"),
    ),
    (
        "tied here only",
        lambda: [usual()[0], given("b", A, tied_to="a")],
        ('"b": shape', '"b": tied_to', "None on rank 0", "a on rank 1"),
    ),
    ("R7 contents that cannot be read", lambda: [Unreadable(), usual()[1]], ('"a"', "disk gone", "on rank 1")),
    ("R7 no spec at all", lambda: [None, usual()[1]], ("number 0", "NoneType", "on rank 1")),
    ("R7 no list at all", lambda: None, ("NoneType", "on rank 1")),
    ("an id twice", lambda: [usual()[0], usual()[0]], ('"a": is registered already', "on rank 1")),
    ("an id that is no string", lambda: [given(7, A), usual()[1]], ('"7"', "expected a string", "on rank 1")),  # type: ignore[arg-type]  # on purpose
    (
        "a whole of another shape",
        lambda: [given("a", A, shape=(4,)), usual()[1]],
        ('"a"', "full has shape (5,), expected (4,)", "on rank 1"),
    ),
    (
        "a whole of another dtype",
        lambda: [given("a", A, dtype=torch.int32), usual()[1]],
        ('"a"', "full has dtype torch.float32, expected torch.int32", "on rank 1"),
    ),
    (
        "neither shard nor whole",
        lambda: [given("a", A, full=None), usual()[1]],
        ('"a"', "neither shard nor full", "on rank 1"),
    ),
    (
        "tied to nothing",
        lambda: [usual()[0], given("b", B, tied_to="z")],
        ('"b"', "tied to 'z'", "registered before it", "on rank 1"),
    ),
    (
        "tied to another shape",
        lambda: [usual()[0], given("b", B, tied_to="a")],
        ('"b"', "shape is (2, 3), expected (5,)", "on rank 1"),
    ),
    ("a negative size", lambda: [given("a", A, shape=(-5,)), usual()[1]], ('"a"', "(-5,)", "on rank 1")),
    ("a size that is no integer", lambda: [given("a", A, shape=(5.0,)), usual()[1]], ('"a"', "integers", "on rank 1")),
    ("a dtype that is none", lambda: [given("a", A, dtype="float32"), usual()[1]], ('"a"', "torch.dtype", "on rank 1")),
]


def refused(context: Any, number: int, _blobs: Any) -> Answer:
    """What each rank is told, and whether it is fit for use after it."""
    session = session_of(context, 2)
    specs = REFUSED[number][1]() if context.rank == 1 else usual()
    with pytest.raises(gpu_impl.RegistrationError) as caught:
        session.register(specs)
    with pytest.raises(gpu_impl.UnknownParameterError, match="registered: none"):
        session.gather("a")
    session.register(usual())
    assert torch.equal(session.gather("a"), A)
    assert torch.equal(session.gather("b"), B)
    return str(caught.value), ()


@pytest.mark.parametrize("number", [pytest.param(i, id=row[0]) for i, row in enumerate(REFUSED)])
def test_refused_on_every_rank_with_one_text(ranks: Any, number: int) -> None:
    texts = ranks.values(refused, number, world_size=2)
    assert len(set(texts)) == 1
    for words in REFUSED[number][2]:
        assert words in texts[0]


def many_differences(context: Any, world_size: int, _blobs: Any) -> Answer:
    """Ranks 0 and 2 agree; every parameter of the others differs in shape."""
    session = session_of(context, world_size)
    odd = context.rank % 2
    with pytest.raises(gpu_impl.RegistrationError) as caught:
        session.register([given(f"p{i}", ramp(4 + odd)) for i in range(20)])
    return str(caught.value), ()


def test_many_differences_are_cut_short_and_ranks_grouped(ranks: Any) -> None:
    text = ranks.values(many_differences, 4, world_size=4)[2]
    assert "(4,) on ranks 0, 2, (5,) on ranks 1, 3" in text
    assert "differences more" in text
    assert len(text.splitlines()) == 11


def alignment_differs(context: Any, world_size: int, _blobs: Any) -> Answer:
    session = session_of(context, world_size, alignment=1 + 3 * context.rank)
    with pytest.raises(gpu_impl.RegistrationError, match=r"alignment is 1 on rank 0, 4 on rank 1"):
        session.register([])
    return None, ()


def test_the_alignment_must_agree(ranks: Any) -> None:
    ranks.values(alignment_differs, 2, world_size=2)


# R1, R2, R8: the shape, and what lies in the gradient's place.
ACCEPTED = [
    ((5,), "full"),
    ((5,), "partition"),
    ((5,), "absent"),
    ((7,), "nonsense"),
    ((1,), "full"),
    ((), "partition"),
    ((0, 3), "absent"),
    ((3, 3, 3), "full"),
]


def accepted(context: Any, world_size: int, _blobs: Any) -> Answer:
    """All of them at once, each frozen and not."""
    session = session_of(context, world_size)
    specs, wholes = [], {}
    for number, (shape, grad) in enumerate(ACCEPTED):
        for frozen in (False, True):
            whole = ramp(*shape, start=number)
            buffers = {"full": whole, "partition": ramp(2), "absent": None, "nonsense": "no tensor"}
            id = f"{number}{frozen}"
            specs.append(given(id, whole, grad=buffers[grad], requires_grad=not frozen))
            wholes[id] = whole
    with Watch() as watch:
        session.register(specs)
    for id, whole in wholes.items():
        assert torch.equal(session.gather(id), whole)
    return watch.collectives, ()


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_uneven_shapes_and_any_gradient_buffer_are_accepted_in_one_exchange(ranks: Any, world_size: int) -> None:
    for collectives in ranks.values(accepted, world_size, world_size=world_size):
        assert collectives == ["c10d::_allgather_base_"]


def given_shards(context: Any, world_size: int, _blobs: Any) -> Answer:
    """A shard that is given is used as it is; one that cannot be written to or sent as it is, is copied once."""
    rank = context.rank
    whole, session = ramp(7), session_of(context, world_size)
    plain = gpu_impl.shard(whole, rank, world_size)
    wide = torch.zeros(2 * plain.numel())
    wide[::2] = plain
    inside = torch.zeros(plain.numel() + 3)
    inside[3:] = plain
    with torch.inference_mode():
        inference = plain.clone()
    shards = {"plain": plain, "strided": wide[::2], "inside": inside[3:], "inference": inference}
    session.register([given(id, whole, full=None, shard=shard) for id, shard in shards.items()])
    for id, shard in shards.items():
        assert torch.equal(session.gather(id), whole)
        mine = session.shard(id)
        assert mine.is_contiguous()
        assert (mine.data_ptr() == shard.data_ptr()) == (id in ("plain", "inside"))
        session.update(id, torch.full_like(mine, 2.0))
        assert torch.equal(session.gather(id), torch.full((7,), 2.0))
    assert inside[:3].tolist() == [0.0] * 3
    return None, ()


def test_given_shards_are_used(ranks: Any) -> None:
    ranks.values(given_shards, 2, world_size=2)


def later(context: Any, world_size: int, _blobs: Any) -> Answer:
    """More can be registered later, an id of before cannot, and what was there stays."""
    session = registered(context, world_size, {"a": A})
    held = session.gather("a")
    session.register([given("b", B), given("c", A, tied_to="a")])
    with pytest.raises(gpu_impl.RegistrationError, match=r'"a": is registered already.* on ranks 0-2'):
        session.register([given("d", B), given("a", A)])
    with pytest.raises(gpu_impl.UnknownParameterError, match=r"no parameter 'd'.*'a', 'b', 'c'"):
        session.available("d")
    assert session.available("a")
    assert torch.equal(held, A)
    assert torch.equal(session.gather("b"), B)
    assert session.gather("c").data_ptr() == held.data_ptr()
    return None, ()


def test_registering_again(ranks: Any) -> None:
    ranks.values(later, 3, world_size=3)


def layouts(context: Any, _payload: Any, _blobs: Any) -> Answer:
    group = context.group((context.rank,))
    for layout, said in (
        ({"kind": "chunk"}, "layout kind is 'chunk', expected 'flat_padded'"),
        ({"kind": "flat_padded", "alignment": 0}, "alignment is 0"),
    ):
        with pytest.raises(ValueError, match=said):
            gpu_impl.Session(group, torch.device("cpu"), layout)
    return None, ()


def test_other_layouts_are_refused(ranks: Any) -> None:
    ranks.values(layouts, None, world_size=1)
