"""Writes the results once a run is over."""

from __future__ import annotations

from shardproof.events import Event, Listener, RunFinished
from shardproof.results import Destination


def saving(destination: Destination) -> Listener:
    """A listener that writes results.json and the failing cases."""

    def listen(event: Event) -> None:
        if isinstance(event, RunFinished):
            destination.write(event.result)

    return listen
