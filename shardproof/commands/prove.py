"""`shardproof prove`: the layout formulas for every numel, world size and alignment."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardproof.errors import UsageError
from shardproof.names import unknown

if TYPE_CHECKING:
    from reference import Layout
    from shardproof.proofs import Claim

LAYOUTS = ("flat_padded", "chunk")


def prove(  # noqa: PLR0913, PLR0917  # one parameter an option: typer makes the command line from them
    only: Annotated[str | None, typer.Option(help="Slugs of claims, separated by commas. Default: all.")] = None,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Try every small size as well.")] = False,
    seconds: Annotated[float, typer.Option(help="Time for all proofs together.", min=0.001)] = 50.0,
    json: Annotated[Path | None, typer.Option(help="Write what was found to this file.")] = None,
    overflow: Annotated[
        str | None, typer.Option(help="A dtype: print from which numel on 32 bits are too few, and prove nothing.")
    ] = None,
    layout: Annotated[str, typer.Option(help="For --overflow: flat_padded, or chunk of (outer, size, inner).")] = (
        "flat_padded"
    ),
    world_size: Annotated[int, typer.Option(help="For --overflow.", min=1)] = 2,
    alignment: Annotated[int, typer.Option(help="For --overflow of flat_padded.", min=1)] = 1,
    inner: Annotated[int, typer.Option(help="For --overflow of chunk: elements of a slice.", min=1)] = 1,
    outer: Annotated[int, typer.Option(help="For --overflow of chunk: rows.", min=1)] = 1,
) -> None:
    """Prove the layout formulas for every numel, world size and alignment, with an SMT solver, not by trying sizes.

    Exit code 0: all proved. 1: a claim is refuted, with a counterexample. 2: could not judge, or wrong use.
    """
    if overflow is None:
        raise typer.Exit(_prove(_chosen(only), exhaustive, seconds, json))
    from reference import DTYPES
    from shardproof.proofs.overflow import overflows
    from shardproof.proofs.text import overflow_lines

    if overflow not in DTYPES:
        raise unknown("dtype", overflow, list(DTYPES), where="--overflow")
    layout_at = _layout_at(layout, world_size, alignment, inner, outer)
    _say(overflow_lines(overflows(layout_at, DTYPES[overflow].itemsize)))


def _prove(claims: list[Claim], exhaustive: bool, seconds: float, json: Path | None) -> int:
    """Prove and try the claims, say so line by line, and return the exit code."""
    from shardproof import proofs
    from shardproof.atomic import write_text
    from shardproof.proofs import text
    from shardproof.proofs.exhaustive import try_all

    found, trials = [], []
    for proof in proofs.prove(claims, seconds=seconds):
        found.append(proof)
        _say(text.proof_lines(proof))
    _say(["", *text.formula_lines(found), "", text.summary(found)])
    for trial in try_all(claims) if exhaustive else ():
        trials.append(trial)
        _say([text.trial_line(trial)])
    if json:
        write_text(json, json_format.dumps(text.as_json(found, trials), indent=2) + "\n")
    outcomes = {proof.outcome for proof in found}
    if "refuted" in outcomes or any(trial.counterexample for trial in trials):
        return 1
    return 2 if "unknown" in outcomes else 0


def _chosen(only: str | None) -> list[Claim]:
    """The claims of these slugs, or all."""
    from shardproof.proofs import CLAIMS

    by_slug = {claim.slug: claim for claim in CLAIMS}
    slugs = list(by_slug) if only is None else [slug.strip() for slug in only.split(",")]
    for slug in slugs:
        if slug not in by_slug:
            raise unknown("claim", slug, list(by_slug), where="--only")
    return [by_slug[slug] for slug in slugs]


def _layout_at(layout: str, world_size: int, alignment: int, inner: int, outer: int) -> Callable[[int], Layout]:
    """The asked layouts by size. Raises UsageError for an unknown one, and for options of another one."""
    from shardproof.proofs.overflow import chunked, flat_padded

    if layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS, where="--layout")
    foreign = {"alignment": alignment} if layout == "chunk" else {"inner": inner, "outer": outer}
    for name, value in foreign.items():
        if value != 1:
            raise UsageError(f"{layout} has no {name}", where=f"--{name}", observed=str(value), expected="none")
    return flat_padded(world_size, alignment) if layout == "flat_padded" else chunked(world_size, inner, outer)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)
