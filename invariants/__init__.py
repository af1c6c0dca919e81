"""What must hold of sharding code: the laws, and the evidence they look at. Pure: data in, violations out."""

from invariants.broken import LawBroken, broken
from invariants.catalogue import LAWS, UnknownLaw, find
from invariants.evidence import (
    Buffer,
    Call,
    Claim,
    Cost,
    Evidence,
    Expected,
    Held,
    Outcome,
    Place,
    RankStory,
    Seen,
    Step,
    Subject,
    Wanted,
)
from invariants.law import Family, Judgement, Law, Violation, judge
from invariants.rounding import norm_rounding
from invariants.rows import ROWS

__all__ = [
    "LAWS",
    "ROWS",
    "Buffer",
    "Call",
    "Claim",
    "Cost",
    "Evidence",
    "Expected",
    "Family",
    "Held",
    "Judgement",
    "Law",
    "LawBroken",
    "Outcome",
    "Place",
    "RankStory",
    "Seen",
    "Step",
    "Subject",
    "UnknownLaw",
    "Violation",
    "Wanted",
    "broken",
    "find",
    "judge",
    "norm_rounding",
]
