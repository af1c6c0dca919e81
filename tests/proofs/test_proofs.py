"""The claims are proved of the model's formulas, and every one is refuted of some wrong formula, with small values."""

from __future__ import annotations

import sys
from dataclasses import fields, replace

import pytest
import z3

from reference import Run
from shardproof.errors import CouldNotJudge
from shardproof.proofs import CLAIMS, Claim, Formulas, Proof, prove
from shardproof.proofs.claims import DOMAINS, Term
from shardproof.proofs.formulas import Formula, definition
from shardproof.proofs.logic import Statement
from shardproof.proofs.proving import holds
from tests.proofs import planted

BY_SLUG = {claim.slug: claim for claim in CLAIMS}

# Field of Formulas, what stands in its place, the claim that falls, and the counterexample that is found.
PLANTED: list[tuple[str, Formula, str, dict[str, int]]] = []
