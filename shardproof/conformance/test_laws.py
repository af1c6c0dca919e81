"""One test a law. The search runs once, in whichever worker comes first, and every test reads its own law's result."""

from __future__ import annotations

import pytest

from invariants import LAWS
from shardproof.conformance.shared import Told


@pytest.mark.parametrize("law", [law.slug for law in LAWS])
def test_law(law: str, conformance: dict[str, Told]) -> None:
    """The law holds, or the failure is told; a law that could not be judged is skipped with the reason."""
    told = conformance.get(law)
    if told is None or told.outcome == "not judged":
        pytest.skip(f"not judged: {told.text if told else 'not promised'}")
    if told.outcome == "broken":
        pytest.fail(told.text, pytrace=False)


def test_what_was_drawn(conformance: dict[str, Told]) -> None:
    """The run saw every kind of case that it must see to say anything."""
    told = conformance["*"]
    if told.outcome == "broken":
        pytest.fail(told.text, pytrace=False)
