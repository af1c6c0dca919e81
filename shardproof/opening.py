"""Opens an engine on the device that was asked for, or on what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shardproof.errors import CouldNotJudge
from shardproof.names import unknown

if TYPE_CHECKING:
    from shardproof.engine import Engine

DEVICES = ("cpu", "cuda")
# There wherever the NVIDIA driver is loaded; asking torch would cost every start two seconds.
_DRIVER = Path("/dev/nvidia0")


def devices(asked: str | None) -> tuple[str, ...]:
    """The devices to try, in order. Raises UsageError for one that there is not."""
    if asked is None:
        return ("cuda", "cpu") if _DRIVER.exists() else ("cpu",)
    if asked not in DEVICES:
        raise unknown("device", asked, DEVICES, where="--device")
    return (asked,)


@contextmanager
def open_engine(
    implementation: str, candidates: Sequence[str], pool_size: int, say: Callable[[str], None]
) -> Iterator[tuple[Engine, str]]:
    """An engine and its device: the first that works. Raises CouldNotJudge where none does.

    `say` is told why a device that was not asked for is passed over.
    """
    engine, device = _first(implementation, candidates, pool_size, say)
    try:
        yield engine, device
    finally:
        engine.close()


def _first(
    implementation: str, candidates: Sequence[str], pool_size: int, say: Callable[[str], None]
) -> tuple[Engine, str]:
    from shardproof.engine import Engine

    for device in candidates[:-1]:
        try:
            return Engine(implementation, device=device, pool_size=pool_size), device
        except CouldNotJudge as error:
            say(f"not on {device}: {error}")
    return Engine(implementation, device=candidates[-1], pool_size=pool_size), candidates[-1]
