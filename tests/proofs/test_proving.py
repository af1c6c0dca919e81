"""The claims are proved of the formulas that the model runs; what cannot be judged is said to be unknown, and why."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import lcm, prod
from typing import Any

import pytest

import reference
from reference import Bucketed, Chunk, FlatPadded, Run
from shardproof.errors import CouldNotJudge
from shardproof.proofs import CLAIMS, Claim, Formulas, prove
from shardproof.proofs.formulas import Formula, definition
from shardproof.proofs.logic import Statement
from shardproof.proofs.probes import points
from shardproof.proofs.proving import holds

BY_SLUG = {claim.slug: claim for claim in CLAIMS}


def float_shard_numel(numel: Any, world_size: Any, alignment: Any = 1) -> Any:
    return reference.align_up(math.ceil(numel / world_size), alignment)


def wrong_for_three(a: Any, b: Any) -> Any:
    """Wrong where the divisor is 3, which a term is never asked about."""
    return a if b == 3 else reference.ceil_div(a, b)


def owned_in_python(numel: Any, shard_numel: Any, rank: Any) -> Any:
    """Right, but in words that terms do not know."""
    return max(0, min(numel - rank * shard_numel, shard_numel))


def wrong_for_terms(a: Any, b: Any) -> Any:
    """Right for ints; its term is one too large at one place that nobody compares."""
    right = reference.ceil_div(a, b)
    return right if isinstance(a, int) else right + (a == 987_654_321) * 1


def of_nothing(f: Formulas, numel: Any) -> Statement:
    """Holds of every negative numel, and there is none."""
    return Statement(f.min(numel, numel) == numel, given=numel < 0)


def no_two_cubes_are_one(f: Formulas, units: Any, multiple: Any, used: Any) -> Statement:
    """The sum of two cubes is no cube: true, and no search through integers can know it."""
    a, b, c = units + 1, f.min(multiple, multiple), used
    return Statement(a * a * a + b * b * b < c * c * c, given=a * a * a + b * b * b <= c * c * c)


# The claim, the field of Formulas, what stands in its place, and what the reason says.
UNKNOWN: list[tuple[Claim, str, Formula, str]] = [
    (BY_SLUG["ceil-div-is-the-ceiling"], "ceil_div", wrong_for_three, "one thing to SMT terms and another to ints"),
    (BY_SLUG["ceil-div-is-the-ceiling"], "ceil_div", wrong_for_terms, "does not break the claim in ints"),
    (BY_SLUG["owned-bounded"], "owned", owned_in_python, "takes no SMT terms"),
    (Claim(of_nothing), "min", reference.min_, "says nothing"),
    (Claim(no_two_cubes_are_one), "min", reference.min_, "the solver gave up"),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.slug)
def test_every_claim_is_proved(claim: Claim) -> None:
    (proof,) = prove([claim])
    assert (proof.outcome, proof.counterexample, proof.reason) == ("proved", None, "")
    assert (proof.slug, proof.sentence) == (claim.slug, claim.sentence)
    assert proof.formulas
    assert proof.milliseconds > 0


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.slug)
def test_every_claim_holds_in_ints_at_scattered_points(claim: Claim) -> None:
    tried = points(claim)
    assert max(max(point.values()) for point in tried) > 2**53 or "numel" not in claim.domains
    assert all(holds(claim, Formulas(), point) for point in tried)


def test_slugs_and_sentences_tell_claims_apart() -> None:
    assert len(BY_SLUG) == len({claim.sentence for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.sentence.endswith(".") for claim in CLAIMS)


def test_a_ceiling_by_floating_point_is_refuted_where_float64_ends() -> None:
    (proof,) = prove([BY_SLUG["padded-covers"]], replace(Formulas(), shard_numel=float_shard_numel))
    assert proof.outcome == "refuted"
    assert proof.counterexample is not None
    assert proof.counterexample.values == {"numel": 2**53 + 1, "world_size": 1, "alignment": 1}
    assert proof.counterexample.steps == (
        f"float_shard_numel({2**53 + 1}, 1, 1) = {2**53}",
        f"padded_numel_of({2**53}, 1) = {2**53}",
    )


@pytest.mark.parametrize(("claim", "field", "formula", "reason"), UNKNOWN, ids=[row[3] for row in UNKNOWN])
def test_what_cannot_be_judged_is_unknown(claim: Claim, field: str, formula: Formula, reason: str) -> None:
    (proof,) = prove([claim], replace(Formulas(), **{field: formula}))
    assert (proof.outcome, proof.counterexample) == ("unknown", None)
    assert reason in proof.reason


def test_without_time_everything_is_unknown() -> None:
    proofs = list(prove(CLAIMS, seconds=0))
    assert {proof.outcome for proof in proofs} == {"unknown"}
    assert {proof.reason for proof in proofs} == {"no time was left"}


def test_without_z3_nothing_can_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(CouldNotJudge, match=r"pip install 'shardproof\[prove\]'"):
        list(prove(CLAIMS))


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (reference.ceil_div, "ceil_div(a, b) = floor_div(a + b - 1, b)"),
        (
            reference.clamp,
            "clamp(x, low, high) = capped + (capped < low) * (low - capped), where capped = min_(x, high)",
        ),
        (abs, "abs"),
    ],
)
def test_a_formula_is_shown_as_its_source_says_it(formula: Callable[..., Any], text: str) -> None:
    assert definition(formula) == text


def normal(run: Run) -> list[Run]:
    """The run with one block where there is one, and none where there is nothing."""
    one = Run(run.local, run.start, run.numel, run.numel, 1)
    return [] if not run.numel else [one if run.count == 1 or run.stride == run.length else run]


def test_flat_layouts_run_the_formulas_that_are_proved() -> None:
    f = Formulas()
    for numel, world_size, alignment in product(range(20), range(1, 7), range(1, 5)):
        layout = FlatPadded((numel,), world_size, alignment)
        shard = f.shard_numel(numel, world_size, alignment)
        assert layout.padded_numel == f.padded_numel(shard, world_size)
        for rank in range(world_size):
            assert layout.shard_numel(rank) == shard
            assert layout.owned(rank) == f.owned(numel, shard, rank)
            assert list(layout.runs(rank)) == normal(f.run(numel, shard, rank))


def test_chunked_layouts_run_the_formulas_that_are_proved() -> None:
    f = Formulas()
    for outer, size, inner, world_size in product(range(1, 4), range(9), range(1, 4), range(1, 7)):
        layout = Chunk((outer, size, inner), world_size, 1)
        chunk = f.shard_numel(size, world_size)
        assert layout.padded_numel == outer * f.padded_numel(chunk, world_size) * inner
        for rank in range(world_size):
            assert list(layout.runs(rank)) == normal(f.run(size, chunk, rank, inner, outer))


def test_buckets_run_the_formulas_that_are_proved() -> None:
    f = Formulas()
    shapes = ((5,), (3, 4), (), (0,), (9,))
    for world_size, alignment, cap in product(range(1, 7), (1, 2, 8), (None, 4, 16)):
        buffer = Bucketed(shapes, world_size, cap, 4, 6, alignment)
        divisor = lcm(world_size * alignment, 6)
        assert divisor % world_size == 0
        last = buffer.starts[-1] + prod(shapes[-1])
        assert buffer.padded_numel == f.align_up(last, divisor)
        for index, rank in product(range(len(shapes)), range(world_size)):
            low, high = buffer.bucket_of(index)
            assert (low % divisor, high % divisor) == (0, 0)
            share = f.share(low, high, buffer.starts[index], prod(shapes[index]), world_size, rank)
            assert list(buffer.piece(index, rank)) == normal(share)
