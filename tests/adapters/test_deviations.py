"""Known deviations of torch's own sharding are there: each case breaks its law, in the way that the entry speaks of."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import pytest

from shardproof.case import Case
from shardproof.deviations import Deviation, known_deviations
from shardproof.engine import Engine

NAMES = ("fsdp2", "fsdp2_hsdp", "fsdp2_resharded", "fsdp2_resharded_in_part", "dtensor", "fsdp1", "fsdp1_orig_params")
TORCH = version("torch")
# These files include FSDP2's own, whose entries are judged once here, and for each form by `tox -e adapters`.
FORMS = ("fsdp2_resharded", "fsdp2_resharded_in_part")


def said(known: Deviation) -> tuple[str, str, Case]:
    return known.law, known.condition.text, known.case


def entries(name: str) -> list[Deviation]:
    """Its own; those on CUDA are in tests/gpu."""
    included = [said(known) for known in known_deviations("fsdp2")] if name in FORMS else []
    return [known for known in known_deviations(name) if said(known) not in included and known.applies("cpu", TORCH)]


PINNED = [(name, known) for name in NAMES for known in entries(name)]


@pytest.mark.parametrize(
    ("name", "known"), PINNED, ids=[f"{at} {name} {known.law}" for at, (name, known) in enumerate(PINNED)]
)
def test_the_pinned_case_deviates(engine_of: Callable[[str], Engine], name: str, known: Deviation) -> None:
    verdict = engine_of(name).judge(known.case, twice=False)
    broken = [violation for violation in verdict.broken if violation.law == known.law]
    assert broken
    assert all(known.covers(known.case, violation, "cpu") for violation in broken)
