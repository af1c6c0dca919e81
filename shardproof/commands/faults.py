"""`shardproof faults`: what the checker catches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shardproof.errors import UsageError
from shardproof.names import unknown

if TYPE_CHECKING:
    from shardproof.case import Case
    from shardproof.fault_models.registry import FaultModel
    from shardproof.faults import Caught


def faults(
    only: Annotated[str | None, typer.Option(help="Only these rows (G4) or fault models, separated by commas.")] = None,
    seeds: Annotated[int, typer.Option(help="Under so many seeds.", min=1)] = 10,
) -> None:
    """Run the search on implementations with one known mistake each, and print which law catches it and how soon.

    Exit code 0: all are caught under every seed. 1: one survives. 2: wrong use. 3: Shardproof failed.
    """
    from rich.console import Console
    from rich.progress import Progress

    from shardproof.fault_models.registry import FAULTS
    from shardproof.faults import hunt_all

    chosen = _chosen(only, FAULTS)
    found: list[Caught] = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        for caught in progress.track(hunt_all(chosen, range(seeds)), len(chosen), description="fault models"):
            found.append(caught)
    order = {fault.slug: at for at, fault in enumerate(chosen)}
    found.sort(key=lambda caught: order[caught.fault.slug])
    for caught in found:
        typer.echo(line(caught))
    typer.echo(summary(found))
    raise typer.Exit(1 if any(caught.survived for caught in found) else 0)


def line(caught: Caught) -> str:
    """One fault model: its row, the law that caught it, cases needed, and the smallest case."""
    fault = caught.fault
    head = f"{fault.row:<7} {fault.slug:<28}"
    if caught.smallest is None:
        return f"{head} SURVIVED: {fault.sentence}"
    missed = sum(count is None for count in caught.cases)
    how = f"SURVIVED {missed} of {len(caught.cases)} seeds," if missed else "caught by"
    needed = f"median {caught.median:g}, worst {caught.worst:g}"
    return f"{head} {how} {caught.law:<26} {needed:<24} {in_short(caught.smallest)}"


def in_short(case: Case) -> str:
    """A case in one line, as far as it is not plain."""
    shapes = ", ".join(f"{p.shape} {p.dtype}" for p in case.parameters)
    program = " ".join(f"{o.kind}({','.join(o.parameters)})" if o.parameters else o.kind for o in case.program)
    special = [f"rank {d.rank} differs in {d.kind}" for d in case.divergences]
    special += [f"rank {d.rank} late at operation {d.operation}" for d in case.delays]
    return "; ".join([f"{case.world_size} ranks", shapes, program, *special])


def summary(found: list[Caught]) -> str:
    """All in a few lines."""
    from statistics import median

    from shardproof.fault_models.registry import NOT_MODELLED

    lines = ["", f"{len(found)} fault models, {sum(not caught.survived for caught in found)} caught under every seed"]
    lines.append(
        f"cases needed: median {median(caught.median for caught in found):g}, "
        f"worst {max(caught.worst for caught in found):g}; "
        f"{sum(caught.small_enough for caught in found)} shown by a case no larger than the smallest input known"
    )
    lines += [f"{row} has no model here: {reason}" for row, reason in NOT_MODELLED.items()]
    return "\n".join(lines)


def _chosen(only: str | None, known: tuple[FaultModel, ...]) -> list[FaultModel]:
    """The fault models of these rows or names."""
    if only is None:
        return list(known)
    asked = [name.strip() for name in only.split(",") if name.strip()]
    names = [*dict.fromkeys(fault.row for fault in known), *(fault.slug for fault in known)]
    for name in asked:
        if name not in names:
            raise unknown("row or fault model", name, names, where="--only")
    if not asked:
        raise UsageError("no row is named", where="--only", expected=f"some of {', '.join(names)}")
    return [fault for fault in known if fault.row in asked or fault.slug in asked]
