"""The command line. Exit codes: 0 held, 1 broken, 2 could not judge or wrong use, 3 Shardproof itself failed."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import typer

from shardproof.commands.bench import bench
from shardproof.commands.check import check
from shardproof.commands.faults import faults
from shardproof.commands.impls import impls
from shardproof.commands.laws import laws
from shardproof.commands.prove import prove
from shardproof.commands.replay import replay
from shardproof.errors import CouldNotJudge, UsageError

INTERRUPTED = 130

app = typer.Typer(
    name="shardproof",
    help="Checks sharding code on real ranks and shows the smallest case in which it breaks a law.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """An interrupt ends with its own exit code, whatever this release of typer makes of one."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            _say("interrupted: ranks are ended, and what was found so far is above; no results are written")
            raise typer.Exit(INTERRUPTED) from None

    return run


for _command in (check, replay, laws, impls, faults, prove, bench):
    app.command()(_interruptible(_command))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (default: this process's own arguments) and return its exit code."""
    try:
        _find_what_is_here()
        app(args=list(sys.argv[1:] if arguments is None else arguments), prog_name="shardproof")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        _say(f"error: {error}")
        return 2
    except CouldNotJudge as reason:
        _say(f"could not judge: {reason}")
        return 2
    except Exception:
        _say(f"{traceback.format_exc()}\n{_REPORT}")
        return 3
    return 0


_REPORT = """Shardproof itself failed; nothing is said about the code that was checked.
Please report this with the lines above and the command that you ran."""


def _find_what_is_here() -> None:
    """Let implementations in the current folder be found, as `python -m` does, behind what is installed."""
    from shardproof.siblings import check_siblings

    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    check_siblings()


def _say(text: str) -> None:
    typer.echo(text, err=True)
