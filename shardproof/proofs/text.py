"""Proofs, trials and overflows as lines of text, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from shardproof.proofs.exhaustive import Trial
from shardproof.proofs.overflow import Overflow
from shardproof.proofs.proving import Proof

INDENT = " " * 10


def proof_lines(proof: Proof) -> Iterator[str]:
    """One proof: outcome, slug, time; the sentence; the formulas; where it fails."""
    yield f"{proof.outcome:<8}  {proof.slug}  ({proof.milliseconds:.0f} ms)"
    yield f"{INDENT}{proof.sentence}"
    yield f"{INDENT}from {', '.join(definition.partition('(')[0] for definition in proof.formulas)}"
    if proof.counterexample:
        yield f"{INDENT}fails at {_point(proof.counterexample.values)}"
        yield from (f"{INDENT}  {step}" for step in proof.counterexample.steps)
    if proof.reason:
        yield f"{INDENT}because {proof.reason}"


def formula_lines(proofs: Sequence[Proof]) -> Iterator[str]:
    """Every formula that the proofs speak about, once, as its source says it."""
    yield "formulas, as the model runs them:"
    yield from (f"  {definition}" for definition in _distinct(proofs))


def summary(proofs: Sequence[Proof]) -> str:
    """How many of each outcome, and how long it took."""
    counts = Counter(proof.outcome for proof in proofs)
    took = sum(proof.milliseconds for proof in proofs) / 1000
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("proved", "refuted", "unknown"))
    return f"{said} in {took:.1f} s, for every integer in the variables' domains"


def trial_line(trial: Trial) -> str:
    """One claim on its grid."""
    grid = ", ".join(f"{name} to {last}" for name, last in trial.lasts.items())
    if trial.counterexample:
        return f"broken    {trial.slug}: fails at {_point(trial.counterexample)}"
    return f"held      {trial.slug}: {trial.tried:,} points, {grid}  ({trial.milliseconds:.0f} ms)"


def overflow_lines(found: Sequence[Overflow]) -> Iterator[str]:
    """A table: quantity, word, the least numel."""
    width = max(len(overflow.quantity) for overflow in found)
    for overflow in found:
        at = f"from numel {overflow.numel:,} on ({overflow.value:,})" if overflow.numel is not None else "never"
        yield f"{overflow.quantity:<{width}}  {overflow.word:<6}  {at}"


def as_json(proofs: Sequence[Proof], trials: Iterable[Trial]) -> dict[str, Any]:
    """Everything the command found, as JSON values."""
    return {"version": 1, "proofs": list(map(asdict, proofs)), "trials": list(map(asdict, trials))}


def _distinct(proofs: Sequence[Proof]) -> list[str]:
    return list(dict.fromkeys(definition for proof in proofs for definition in proof.formulas))


def _point(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
