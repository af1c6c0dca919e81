"""`shardproof laws`: the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from shardproof.names import unknown


def laws(
    slug: Annotated[str | None, typer.Argument(metavar="LAW", help="One law, told in full.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/laws.md.")] = False,
) -> None:
    """Print the laws: what must hold, why, and which known faults each would have caught."""
    from invariants import LAWS
    from shardproof.catalogue import page, table, told

    by_slug = {law.slug: law for law in LAWS}
    if slug is not None and slug not in by_slug:
        raise unknown("law", slug, list(by_slug), where="laws")
    text = page(LAWS) if markdown else told(by_slug[slug]) if slug else table(LAWS)
    typer.echo(text, nl=False)
