"""The claims are proved of the model's formulas, and every one is refuted of some wrong formula, with small values."""

from __future__ import annotations

from shardproof.proofs import CLAIMS
from shardproof.proofs.formulas import Formula

BY_SLUG = {claim.slug: claim for claim in CLAIMS}

# Field of Formulas, what stands in its place, the claim that falls, and the counterexample that is found.
PLANTED: list[tuple[str, Formula, str, dict[str, int]]] = []
