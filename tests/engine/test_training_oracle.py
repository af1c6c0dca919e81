"""What training must give: against fractions, element by element, and against hand-written tables."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
import pytest

from invariants import Subject, norm_rounding
from reference import FlatPadded, decode, encode
from shardproof import training_oracle
from shardproof.case import Case, Group, Operation, Parameter
from shardproof.contents import full_bits, gradient, trains
from shardproof.oracle import expectations
from shardproof.training_oracle import Numbers, Summed, clipped, inputs, norm, numbers, rounded, stepped
from shardproof.values import as_bytes

A = Parameter("a", (5,))
TIED = Parameter("t", (5,), tied_to="a")
FROZEN = Parameter("f", (2,), frozen=True)
HALF = Parameter("h", (3,), "bfloat16")
INTEGERS = Parameter("i", (2,), "int64", frozen=True)


def trained(program: str, *parameters: Parameter, ranks: int = 2, elsewhere: int = 3) -> Case:
    """A word is "kind=value@group", value and group left out where they are plain."""
    operations = []
    for word in program.split():
        rest, _, group = word.partition("@")
        kind, _, value = rest.partition("=")
        operations.append(Operation(kind, (), group or "main", int(value or 0)))  # type: ignore[arg-type]  # by name
    groups = (Group("main", tuple(range(ranks))), Group("other", tuple(range(elsewhere))))
    return Case(groups, parameters, tuple(operations))


class Slow:
    """The documented formula in fractions, one element after another; nothing is rounded."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.weights = {
            p.id: [Fraction(int(value)) for value in decode(full_bits(case, p), p.dtype)]
            for p in case.parameters
            if p.tied_to is None and p.dtype != "int64"
        }

    def meets(self, i: int, rank: int, value: int) -> Fraction:
        return Fraction((i + 3 * rank + 5 * value) % 7 - 3)

    def names(self) -> list[str]:
        return [p.tied_to or p.id for p in self.case.parameters if p.dtype != "int64"]

    def loss(self, world_size: int, value: int) -> Fraction:
        return sum(
            (w * self.meets(i, rank, value) + w * w / 2)
            for id in self.names()
            for rank in range(world_size)
            for i, w in enumerate(self.weights[id])
        )  # type: ignore[return-value]  # never an empty sum here

    def gradient(self, id: str, world_size: int, value: int) -> list[Fraction]:
        uses = self.names().count(id)
        return [
            sum((w + self.meets(i, rank, value) for rank in range(world_size)), Fraction()) * uses
            for i, w in enumerate(self.weights[id])
        ]

    def step(self, id: str, gradient: list[Fraction], value: int) -> None:
        self.weights[id] = [w - g / 2**value for w, g in zip(self.weights[id], gradient, strict=True)]


def of(bits: bytes, dtype: str = "float32") -> list[float]:
    word = {"float32": np.uint32, "bfloat16": np.uint16, "float64": np.uint64}[dtype]
    return [float(value) for value in decode(np.frombuffer(bits, word), dtype)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_losses_gradients_norms_and_weights(ranks: int) -> None:
    told = trained(
        "register forward=1 backward norm step=5 gather forward=2 backward norm step=4 gather",
        *(A, TIED, FROZEN, INTEGERS),
        ranks=ranks,
    )
    slow, said = Slow(told), expectations(told, None, "gloo")
    for first, value, rate in ((1, 1, 5), (6, 2, 4)):
        assert said[first].scalar == slow.loss(ranks, value)
        total = slow.gradient("a", ranks, value)
        shards = [of(shard["a"]) for shard in said[first + 1].per_rank]
        padding = [0.0] * (len(shards) * len(shards[0]) - 5)
        assert [*chain.from_iterable(shards)] == [*map(float, total), *padding]
        assert [set(shard) for shard in said[first + 1].per_rank] == [{"a"}] * ranks
        assert said[first + 2].scalar == pytest.approx(math.sqrt(sum(g * g for g in total)), rel=1e-15)
        slow.step("a", total, rate)
        after = said[first + 4]
        assert of(after.results["a"]) == of(after.results["t"]) == slow.weights["a"]
        assert of(after.results["f"]) == slow.weights["f"]
        assert not any(after.room.values())
    assert len(said[10].earlier["a"]) == 2


def test_what_was_accumulated_is_part_of_the_next_backward_only() -> None:
    told = trained("register accumulate accumulate forward=1 backward forward=1 backward", A)
    slow, said = Slow(told), expectations(told, None, "gloo")
    own = sum(gradient(told, A, index, rank) for index in (1, 2) for rank in (0, 1))
    total = slow.gradient("a", 2, 1)
    for at, more in ((4, own), (6, 0 * own)):
        joined = of(b"".join(shard["a"] for shard in said[at].per_rank))
        assert joined[:5] == [float(g) + o for g, o in zip(total, more, strict=True)]


def test_training_goes_on_after_a_load_at_another_world_size() -> None:
    told = trained(
        "register forward=1 backward step=5 save update load@other gather@other forward=2@other backward@other "
        "step=5@other gather@other", A,
    )  # fmt: skip
    slow, said = Slow(told), expectations(told, None, "gloo")
    slow.step("a", slow.gradient("a", 2, 1), 5)
    assert of(said[7].results["a"]) == slow.weights["a"]
    assert said[8].scalar == slow.loss(3, 2)
    slow.step("a", slow.gradient("a", 3, 2), 5)
    assert len(said[9].per_rank) == 3
    assert of(said[11].results["a"]) == slow.weights["a"]


def test_a_given_gradient_is_stepped_too() -> None:
    told = trained("register reduce step=5 gather step=5 gather", A)
    total = gradient(told, A, 1, 0) + gradient(told, A, 1, 1)
    start = decode(full_bits(told, A), "float32")
    for index, times in ((3, 1), (5, 2)):
        expected = start - times * total / 32
        assert of(expectations(told, None, "gloo")[index].results["a"]) == list(expected)


def test_half_precision_is_exact_once_and_known_up_to_its_rounding_after_that() -> None:
    told = trained("register forward=1 backward step=5 gather forward=2 backward step=5 gather", HALF)
    said = expectations(told, None, "gloo")
    slow = Slow(told)
    slow.step("h", slow.gradient("h", 2, 1), 5)
    nearest = [of(as_bytes(rounded(np.array([float(w)]), "bfloat16")), "bfloat16")[0] for w in slow.weights["h"]]
    assert of(said[4].results["h"], "bfloat16") == nearest
    assert not said[4].room
    assert 0 < said[8].room["h"] < 1


# What leaves nothing to be said for sure, and the step from which on that is so.
OPEN: list[tuple[str, tuple[Parameter, ...], int]] = [
    ("register forward backward step", (INTEGERS,), 2),
    ("register forward backward step", (FROZEN,), 2),
    ("register reduce step", (Parameter("i", (2,), "int32"),), 2),
    ("register reduce clip=2", (Parameter("i", (2,), "int32"),), 2),
    ("register accumulate forward backward", (Parameter("h", (2,), "bfloat16", grad_dtype="float32"),), 3),
]  # fmt: skip


@pytest.mark.parametrize(("program", "parameters", "index"), OPEN)
def test_what_is_left_open(program: str, parameters: tuple[Parameter, ...], index: int) -> None:
    wanted = [one.wanted for one in expectations(trained(program, *parameters), None, "gloo")]
    assert wanted.index("unspecified") == index


def test_what_overflows_is_not_stated() -> None:
    grows = "register " + "forward backward step=1 " * 9 + "gather forward"
    *_, gathered, forward = expectations(trained(grows, Parameter("a", (2,), "float16"), ranks=8), None, "gloo")
    assert (dict(gathered.results), forward.scalar) == ({}, None)


def subject(id: str, numel: int, dtype: str = "float32") -> Subject:
    return Subject(id, (numel,), dtype, {2: FlatPadded((numel,), 2)})


# Gradients, a bound, what is left of them, and whether bits are known.
CLIPS = [
    ([3.0, 4.0], 6.0, [3.0, 4.0], True),
    ([3.0, 4.0], 5.0, [3.0, 4.0], False),
    ([3.0, 4.0], 2.5, [1.5, 2.0], False),
    ([0.0, 0.0], 0.0, [0.0, 0.0], True),
    ([3.0, 4.0], 0.0, [0.0, 0.0], True),
]


@pytest.mark.parametrize(("values", "bound", "left", "exact"), CLIPS)
def test_clips(values: list[float], bound: float, left: list[float], exact: bool) -> None:
    found = clipped({"a": Numbers(np.array(values))}, bound, {"a": subject("a", 2)}, 2)["a"]
    assert found.values.tolist() == left
    assert (found.error == 0) is exact
    assert found.error < 1e-4


def test_room_covers_what_torch_does_to_a_norm() -> None:
    """bound / (norm + 1e-6), as torch.nn.utils.clip_grad_norm_ computes it."""
    values = np.array([30.0, 40.0])
    found = clipped({"a": Numbers(values)}, 1.0, {"a": subject("a", 2)}, 2)["a"]
    assert np.all(abs(values / (50 + 1e-6) - found.values) <= found.error)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_rounding_is_to_the_nearest_and_ties_go_to_even(dtype: str) -> None:
    digits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    for whole in (1 << digits, (1 << digits) + 2):
        assert numbers(rounded(np.array([whole + 1.0]), dtype), dtype).item() % 4 == 0
    integers = np.arange(-5, 6)
    assert np.array_equal(rounded(integers.astype(float), dtype), encode(integers, dtype))


def test_errors_are_carried_along() -> None:
    w, g = Numbers(np.array([1.0, 2.0]), error=0.25), Numbers(np.array([4.0, 4.0]), error=0.5)
    after = stepped(w, g, 0.5, "float64", "float64")
    assert after.values.tolist() == [-1.0, 0.0]
    assert 0.5 <= after.error <= 1.1
    total, spread = norm([g])
    assert (total, spread) == (math.sqrt(32), math.sqrt(0.5))
    part = Summed(w, [], 2, ("float64", "float64"), 0)
    assert 2 * 2 * 0.25 <= training_oracle.gradient(part, 2, 0).error <= 2.1


def test_unknown_stays_unknown() -> None:
    w, g = Numbers(np.ones(2), error=math.inf), Numbers(np.ones(2))
    part = Summed(w, [], 1, ("float32", "float32"), 0)
    assert not training_oracle.gradient(part, 2, 0).known
    assert not stepped(w, g, 0.5, "float32", "float32").known
    assert training_oracle.loss([w], 2, 0) == (None, 0.0)
    assert norm([w, g]) == (None, 0.0)
    assert clipped({"a": w}, 1.0, {"a": subject("a", 2)}, 2)["a"] is w


def test_inputs_differ_between_ranks_and_values() -> None:
    drawn: list[Any] = [inputs((2, 4), rank, value).tolist() for rank in range(3) for value in range(2)]
    assert drawn[0] == [[-3.0, -2.0, -1.0, 0.0], [1.0, 2.0, 3.0, -3.0]]
    assert len({str(one) for one in drawn}) == 6


def test_only_a_program_that_trains_has_numbers_for_contents() -> None:
    moved, counted = trained("register gather", A), trained("register forward", A)
    assert not trains(moved)
    assert trains(counted)
    values = decode(full_bits(counted, A), "float32")
    assert np.array_equal(values, values.astype(int))
    assert not np.array_equal(decode(full_bits(moved, A), "float32"), values)


def test_a_norm_has_room_for_its_dtype() -> None:
    assert norm_rounding([subject("a", 4)], 2) < norm_rounding([subject("a", 4, "bfloat16")], 2) < 0.25
