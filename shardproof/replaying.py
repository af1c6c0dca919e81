"""One saved case, run and judged again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from shardproof.case import Case
from shardproof.failure import Failure, failure_of

if TYPE_CHECKING:
    from shardproof.running import Verdict
    from shardproof.search import Judge


def replayed(judge: Judge, case: Case, file: str) -> tuple[Verdict, tuple[Failure, ...]]:
    """The verdict of a case under both poisons, and every broken law in it."""
    verdict = judge.judge(case, twice=True)
    name = judge.description.name
    laws = {law.slug: law for law in judge.laws()}
    failures = tuple(
        failure_of(
            laws[judgement.law],
            judgement.violations,
            case=case,
            evidence=verdict.evidence,
            implementation=name,
            replay=shlex.join(["shardproof", "replay", file, "--impl", name]),
        )
        for judgement in verdict.judgements
        if judgement.violations
    )
    return verdict, failures
