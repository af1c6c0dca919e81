"""`shardproof check`: search."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardproof.errors import UsageError
from shardproof.names import unknown
from shardproof.profiles import PROFILES, Budget
from shardproof.world_sizes import parse_world_sizes

if TYPE_CHECKING:
    from shardproof.deviations import Deviation

# A rank more than the largest group has lets every group start elsewhere than at rank 0; above this it costs too much.
_ROOMY = 8


def check(  # noqa: PLR0913, PLR0917  # one parameter an option; typer passes them by name
    impl: Annotated[
        str, typer.Option(help="A known implementation (see `impls`), pkg.mod, or pkg.mod:attr.")
    ] = "gpu_impl",
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda where a GPU can be used.")] = None,
    world_sizes: Annotated[str, typer.Option(help='World sizes, such as "1-8" or "1,2,4".')] = "1-8",
    profile: Annotated[str, typer.Option(help=f"How much it may cost: {', '.join(PROFILES)}.")] = "default",
    examples: Annotated[int | None, typer.Option(help="So many cases, however long they take.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other cases.", min=0)] = 0,
    only: Annotated[str | None, typer.Option(help="Judge only these laws, separated by commas.")] = None,
    shapes: Annotated[str | None, typer.Option(help="Check the parameter shapes of a public model.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write results.json and failing cases to this folder.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write results.json to this file.")] = None,
    known_deviations: Annotated[
        Path | None, typer.Option(help="A TOML file of what the implementation is known to do otherwise.")
    ] = None,
) -> None:
    """Search for the smallest case that breaks a law.

    Exit code 0: all judged laws hold. 1: a law is broken. 2: could not judge, or wrong use. 3: Shardproof failed.
    """
    sizes = parse_world_sizes(world_sizes)
    budget = _budget(profile, examples)

    # Hypothesis keeps a cache of its own in the current folder, unless it is told where else.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(".shardproof") / "hypothesis"))

    from shardproof.implementations import resolve
    from shardproof.model_shapes import shape_set
    from shardproof.opening import devices, open_engine
    from shardproof.reporters import reporter, saving
    from shardproof.results import LATEST, Destination
    from shardproof.search import Plan, search
    from shardproof.shape_cases import shape_cases

    laws = _laws(only)
    resolve(impl)
    candidates = devices(device)
    chosen_shapes = shape_set(shapes) if shapes else None
    deviations = _deviations(impl, known_deviations)
    destination = Destination(report or (None if json else LATEST), json)
    pool_size = max(sizes) + (max(sizes) < _ROOMY)
    with reporter() as report_to, open_engine(impl, candidates, pool_size, typer.echo) as (engine, chosen):
        plan = Plan(
            world_sizes=sizes,
            pool_size=pool_size,
            device=chosen,
            seed=seed,
            budget=budget,
            only=laws,
            deviations=deviations,
            cases=shape_cases(chosen_shapes, engine.description, sizes) if chosen_shapes else None,
            destination=destination,
        )
        result = search(engine, plan, (saving(destination), report_to))
    raise typer.Exit(result.exit_code)


def _budget(profile: str, examples: int | None) -> Budget:
    if profile not in PROFILES:
        raise unknown("profile", profile, list(PROFILES), where="--profile")
    budget = PROFILES[profile]
    return budget if examples is None else replace(budget, examples=examples, seconds=float("inf"))


def _laws(only: str | None) -> tuple[str, ...]:
    """The slugs, each of which is one."""
    if only is None:
        return ()
    from invariants import LAWS

    known = [law.slug for law in LAWS]
    slugs = tuple(dict.fromkeys(slug.strip() for slug in only.split(",") if slug.strip()))
    if not slugs:
        raise UsageError("no law is named", where="--only", expected=f"some of {', '.join(known)}")
    for slug in slugs:
        if slug not in known:
            raise unknown("law", slug, known, where="--only")
    return slugs


def _deviations(impl: str, path: Path | None) -> tuple[Deviation, ...]:
    """Those that come with the implementation, and those of a file."""
    from invariants import LAWS
    from shardproof.deviations import known_deviations, read_deviations

    found = known_deviations(impl) + (read_deviations(path) if path else ())
    known = [law.slug for law in LAWS]
    for deviation in found:
        if deviation.law not in known:
            raise unknown("law", deviation.law, known, where=str(path or f"known deviations of {impl}"))
    return found
