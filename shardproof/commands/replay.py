"""`shardproof replay`: one saved case again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shardproof.errors import CouldNotJudge


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A case file, or a results.json.")],
    index: Annotated[int | None, typer.Option(help="Which failure of a results.json; default 0.", min=0)] = None,
    impl: Annotated[str | None, typer.Option(help="Default: the one in results.json, else gpu_impl.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: the one in results.json, else cpu.")] = None,
    script: Annotated[Path | None, typer.Option(help="Write a script that shows it without Shardproof.")] = None,
) -> None:
    """Run one saved case again and judge it.

    Exit code 0: all judged laws hold. 1: a law is broken. 2: could not judge, or wrong use. 3: Shardproof failed.
    """
    from shardproof.opening import devices, open_engine
    from shardproof.replaying import replayed
    from shardproof.reporters import print_replay
    from shardproof.results import read_saved

    saved = read_saved(file, index)
    name = impl or saved.implementation or "gpu_impl"
    candidates = devices(device or saved.device or "cpu")
    if script:
        from shardproof.atomic import write_text
        from shardproof.script import as_script

        write_text(script, as_script(saved.case, name))
        typer.echo(f"wrote {script}")
    with open_engine(name, candidates, saved.case.pool_size, typer.echo) as (engine, _):
        verdict, failures = replayed(engine, saved.case, str(file))
        print_replay(verdict, failures, saved.law)
    if verdict.outcome == "unknown":
        raise CouldNotJudge("no law found anything to judge in this case")
    raise typer.Exit(1 if failures else 0)
