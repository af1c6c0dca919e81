"""Every small size is tried, and how many there were is counted right."""

from __future__ import annotations

import numpy as np
import pytest

from shardproof.proofs import CLAIMS, Claim, Formulas
from shardproof.proofs.exhaustive import Trial, try_all
from shardproof.proofs.probes import points

BY_SLUG = {claim.slug: claim for claim in CLAIMS}
SIZES = 301 * 64 * 16
WITH_RANKS = 301 * sum(range(1, 65)) * 16

# Claims, and the number of points that their grids have.
COUNTS = [
    ("floor-div-is-the-floor", 601 * 64),
    ("padded-covers", SIZES),
    ("padding-minimal", SIZES * 16),
    ("owned-bounded", WITH_RANKS),
    ("shards-tile", WITH_RANKS),
    ("empty-shards-past-the-end", WITH_RANKS),
    ("chunk-rows-tile", 301 * sum(range(1, 65)) * 3 * 2),
    ("bucket-ends-divisible", SIZES),
    ("owned-exactly-once", sum(range(1, 25)) * sum(range(1, 7)) * 4),
    ("padding-at-the-end-only", 25 * 4 * sum(w * (w - 1) // 2 for w in range(1, 7))),
]


def one(claim: Claim) -> Trial:
    (trial,) = try_all([claim])
    return trial


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.slug)
def test_every_claim_holds_at_every_small_size(claim: Claim) -> None:
    trial = one(claim)
    assert (trial.slug, trial.counterexample) == (claim.slug, None)
    assert trial.tried > 1000


@pytest.mark.parametrize(("slug", "count"), COUNTS)
def test_points_are_counted(slug: str, count: int) -> None:
    assert one(BY_SLUG[slug]).tried == count


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.slug)
def test_arrays_say_what_ints_say(claim: Claim) -> None:
    small = [point for point in points(claim) if max(map(abs, point.values())) < 400]
    arrays = {name: np.array([point[name] for point in small]) for name in claim.domains}
    said = claim.says(Formulas(), **arrays)
    one_by_one = [claim.says(Formulas(), **point) for point in small]
    assert np.broadcast_to(said.then, len(small)).tolist() == [bool(each.then) for each in one_by_one]
    assert (said.given is None) == (one_by_one[0].given is None)
    if said.given is not None:
        assert said.given.tolist() == [each.given for each in one_by_one]
