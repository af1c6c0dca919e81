"""Every claim is refuted of some wrong formula, with small values that break it in plain ints as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import reference
from reference import Run, clamp
from shardproof.proofs import CLAIMS, Formulas, prove
from shardproof.proofs.exhaustive import try_all
from shardproof.proofs.formulas import Formula
from shardproof.proofs.proving import holds

Term = Any
BY_SLUG = {claim.slug: claim for claim in CLAIMS}


def floor_shard_numel(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    return reference.floor_div(reference.floor_div(numel, world_size), alignment) * alignment


def long_shard_numel(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    return (reference.floor_div(numel, world_size) + 1) * alignment


def unaligned_shard_numel(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    return reference.ceil_div(numel, world_size) + alignment - 1


def growing_shard_numel(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    return reference.shard_numel_of(numel, world_size, alignment) + (numel == 1) * alignment


def shard_numel_in_32_bits(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    return reference.shard_numel_of(numel - (numel >= 2**31) * 2**32, world_size, alignment)


def unclamped_owned(numel: Term, shard_numel: Term, rank: Term) -> Term:
    return numel - rank * shard_numel


def owned_below_only(numel: Term, shard_numel: Term, rank: Term) -> Term:
    return reference.min_(numel - rank * shard_numel, shard_numel)


def owned_of_full_ranks(numel: Term, shard_numel: Term, rank: Term) -> Term:
    return (numel >= (rank + 1) * shard_numel) * shard_numel


def padded_by_numel(shard_numel: Term, world_size: Term) -> Term:
    return world_size * shard_numel - 1


def run_one_short(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    right = reference.run_of(size, chunk_size, rank, inner, outer)
    return Run(0, right.start, right.length - (rank > 0), right.stride, right.count)


def run_with_wrong_stride(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    right = reference.run_of(size, chunk_size, rank, inner, outer)
    return Run(0, right.start, right.length, right.length, right.count)


def run_overlapping(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    right = reference.run_of(size, chunk_size, rank, inner, outer)
    return Run(0, right.start - (rank > 0), right.length, right.stride, right.count)


def run_of_reversed_ranks(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    start = (rank > 0) * (size - rank * chunk_size)
    return Run(0, start, reference.owned_of(size, chunk_size, rank), size * inner, outer)


def run_starting_late(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    right = reference.run_of(size, chunk_size, rank, inner, outer)
    return Run(1, right.start, right.length, right.stride, right.count)


def align_down(x: Term, alignment: Term) -> Term:
    return reference.floor_div(x, alignment) * alignment


def aligned_to_64(x: Term, alignment: Term) -> Term:
    return reference.align_up(x, 64 + 0 * alignment)


def share_with_open_end(low: Term, high: Term, start: Term, numel: Term, world_size: Term, rank: Term) -> Run:
    right = reference.share_of(low, high, start, numel, world_size, rank)
    return Run(right.local, right.start, numel - right.start, numel - right.start, 1)


def share_from_buffer_start(low: Term, high: Term, start: Term, numel: Term, world_size: Term, rank: Term) -> Run:
    right = reference.share_of(low, high, start, numel, world_size, rank)
    return Run(right.local - reference.floor_div(low, world_size), right.start, right.length, right.stride, 1)


def floor_for_ceiling(a: Term, b: Term) -> Term:
    return reference.floor_div(a, b)


def ceiling_for_floor(a: Term, b: Term) -> Term:
    return reference.ceil_div(a, b)


def larger(a: Term, b: Term) -> Term:
    return a + (a < b) * (b - a)


def clamped_below_only(x: Term, low: Term, high: Term) -> Term:
    return low + (x > low) * (x - low)


def clamped_to_the_wrong_side(x: Term, low: Term, high: Term) -> Term:
    return clamp(low + high - x, low, high)


# The field of Formulas, what stands in its place, the claim that falls, and where.
PLANTED: list[tuple[str, Formula, str, dict[str, int]]] = [
    ("floor_div", ceiling_for_floor, "floor-div-is-the-floor", {"divisor": 2}),
    ("ceil_div", floor_for_ceiling, "ceil-div-is-the-ceiling", {"divisor": 2}),
    ("align_up", align_down, "align-up-is-the-next-multiple", {"divisor": 2}),
    ("min", larger, "min-is-the-smaller", {}),
    ("clamp", clamped_below_only, "clamp-is-the-nearest", {"span": 0}),
    ("clamp", clamped_to_the_wrong_side, "clamp-is-the-nearest", {"span": 1}),
    ("shard_numel", floor_shard_numel, "padded-covers", {"numel": 1, "world_size": 1, "alignment": 2}),
    ("shard_numel", floor_shard_numel, "shards-tile", {"numel": 1, "world_size": 1, "alignment": 2, "rank": 0}),
    ("shard_numel", floor_shard_numel, "owned-exactly-once", {"numel": 1, "index": 0}),
    ("shard_numel", floor_shard_numel, "chunk-owned-by-someone", {"size": 1, "world_size": 2, "slice_": 0}),
    ("padded_numel", padded_by_numel, "padded-covers", {"numel": 0}),
    ("shard_numel", long_shard_numel, "padding-minimal", {"numel": 0, "world_size": 1, "alignment": 1, "fewer": 1}),
    ("shard_numel", long_shard_numel, "padding-bounded", {"numel": 0, "world_size": 1, "alignment": 1}),
    ("shard_numel", growing_shard_numel, "padded-grows-with-numel", {"numel": 1, "more": 1, "world_size": 1}),
    ("shard_numel", unaligned_shard_numel, "boundaries-divisible", {"numel": 0, "alignment": 2}),
    ("owned", unclamped_owned, "owned-bounded", {"numel": 1, "world_size": 2, "alignment": 2, "rank": 1}),
    ("owned", unclamped_owned, "padding-at-the-end-only", {"numel": 1, "world_size": 2, "later_rank": 1}),
    ("owned", owned_below_only, "shards-tile", {"numel": 1, "world_size": 2, "rank": 1}),
    ("owned", owned_of_full_ranks, "empty-shards-past-the-end", {"numel": 1, "world_size": 1, "alignment": 2}),
    ("run", run_one_short, "owned-exactly-once", {"numel": 2, "world_size": 2, "rank": 1}),
    ("run", run_one_short, "chunk-rows-tile", {"size": 0, "world_size": 2, "rank": 1}),
    ("run", run_starting_late, "runs-hold-what-is-owned", {"numel": 0}),
    ("run", run_starting_late, "chunk-inside", {"size": 1, "world_size": 1, "spot": 0}),
    ("run", run_overlapping, "slots-inside-the-buffer", {"numel": 0, "world_size": 2, "rank": 1}),
    ("run", run_overlapping, "chunk-owned-once", {"size": 2, "world_size": 2}),
    ("run", run_with_wrong_stride, "chunk-owned-once", {"size": 2, "world_size": 2, "outer": 2}),
    ("run", run_of_reversed_ranks, "order-kept", {"numel": 3, "world_size": 2}),
    ("run", run_of_reversed_ranks, "reshard-composes", {"numel": 3, "world_size": 1, "new_world_size": 2}),
    ("align_up", aligned_to_64, "bucket-ends-divisible", {"world_size": 1, "multiple": 1}),
    ("share", share_with_open_end, "bucket-shares-equal", {"units": 1, "world_size": 2, "rank": 0}),
    ("share", share_with_open_end, "bucket-shares-tile", {"units": 1, "world_size": 2, "numel": 2}),
    ("share", share_from_buffer_start, "bucket-shares-apart", {"first_unit": 1, "world_size": 1, "numel": 1}),
]


@pytest.mark.parametrize(("field", "wrong", "slug", "where"), PLANTED)
def test_a_wrong_formula_is_refuted(field: str, wrong: Formula, slug: str, where: dict[str, int]) -> None:
    formulas = replace(Formulas(), **{field: wrong})
    (proof,) = prove([BY_SLUG[slug]], formulas)
    assert proof.outcome == "refuted", proof.reason
    assert proof.counterexample is not None
    values = proof.counterexample.values
    assert where.items() <= values.items()
    assert not holds(BY_SLUG[slug], formulas, values)
    assert holds(BY_SLUG[slug], Formulas(), values)
    assert any(step.startswith(f"{wrong.__name__}(") for step in proof.counterexample.steps)


@pytest.mark.parametrize(
    ("field", "wrong", "slug"), [row[:3] for row in PLANTED if max(row[3].values(), default=0) < 2**31]
)
def test_trying_every_small_size_finds_it_too(field: str, wrong: Formula, slug: str) -> None:
    formulas = replace(Formulas(), **{field: wrong})
    (trial,) = try_all([BY_SLUG[slug]], formulas)
    assert trial.counterexample is not None
    assert not holds(BY_SLUG[slug], formulas, trial.counterexample)


def test_a_mistake_past_every_size_that_is_tried_is_refuted() -> None:
    formulas, claim = Formulas(shard_numel=shard_numel_in_32_bits), BY_SLUG["padded-covers"]
    (proof,) = prove([claim], formulas)
    assert proof.counterexample is not None
    assert 2**31 <= proof.counterexample.values["numel"] <= 2**33
    assert not holds(claim, formulas, proof.counterexample.values)


def test_every_claim_can_fall() -> None:
    assert {slug for _, _, slug, _ in PLANTED} == set(BY_SLUG)
