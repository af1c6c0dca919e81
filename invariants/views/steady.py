"""Which gathers are in a steady state: their buffer exists already and nothing else can have taken it.

A parameter's buffer stays its own until the parameter is released. Then it waits for whoever needs one like it, so
that only operations that take no buffer may follow before the next gather. A view that somebody holds while its
parameter changes keeps the old buffer from being written, and so does what a forward saved for its backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from invariants.evidence import Evidence, RankStory, Step, Subject
from invariants.once import picker
from invariants.views.calls import all_gathers, received
from invariants.views.common import demanded_until, roots_of

_GATHERS = frozenset({"gather", "prefetch", "wait"})
_TAKES_NO_BUFFER = frozenset({"update", "invalidate", "release", "use", "layout", "norm"})
_NOWHERE: frozenset[int] = frozenset()
_NOBODY: frozenset[str] = frozenset()
_LEAVES_OTHERS = _TAKES_NO_BUFFER | _GATHERS | {"accumulate", "reduce"}


@dataclass(frozen=True, slots=True)
class Warm:
    """A gather, prefetch or wait of parameters that this rank gathered before, and what it cost.

    `steady`: their buffers are there for reuse. `into`: the storages that its all-gathers received into; `before`:
    those that earlier ones did. `dtypes`: those of its parameters.
    """

    step: Step
    steady: bool
    into: frozenset[int]
    before: frozenset[int]
    dtypes: frozenset[str]
    subject: Subject | None = None


@picker
def warm(evidence: Evidence) -> Iterator[Warm]:
    """Every warm gather, prefetch and wait that the model demands."""
    for story in evidence.ranks:
        yield from _warm(evidence, story)


def steady(evidence: Evidence) -> Iterator[Warm]:
    """Those of them that are in a steady state."""
    return (item for item in warm(evidence) if item.steady)


def _warm(evidence: Evidence, story: RankStory) -> Iterator[Warm]:
    until, roots = demanded_until(evidence), roots_of(evidence)
    buffers, before = _Buffers(), _NOWHERE
    last = max((step.index for step in story.steps if step.warm), default=-1)
    for step in story.steps:
        if step.index >= until or step.index > last:
            return
        into = received(all_gathers(step)) if step.cost.calls else _NOWHERE
        names = {roots.get(id, id) for id in step.parameters}
        if step.warm and step.kind in _GATHERS and step.outcome == "done":
            dtypes = frozenset(evidence.subjects[id].dtype for id in step.parameters if id in evidence.subjects)
            yield Warm(step, buffers.waiting_for(names), into, before, dtypes)
        held = {roots.get(one.parameter, one.parameter) for one in step.held} if step.held else _NOBODY
        buffers.follow(step, names, held)
        before |= into


class _Buffers:
    """Which parameters' buffers are certainly there for the next gather, followed step by step on one rank."""

    def __init__(self) -> None:
        self._own: set[str] = set()
        self._at_rest: set[str] = set()
        self._saved = False
        self._loaded = False

    def waiting_for(self, names: AbstractSet[str]) -> bool:
        """Whether all of these can be gathered into memory that is there."""
        return not self._saved and not self._loaded and names <= self._own | self._at_rest

    def follow(self, step: Step, names: AbstractSet[str], held: AbstractSet[str]) -> None:
        """What the step does to the buffers. `held`: parameters of which somebody holds a view."""
        if step.kind not in _LEAVES_OTHERS:
            self._own.clear()
        if step.kind not in _TAKES_NO_BUFFER:
            self._at_rest.clear()
        if held and step.kind != "use":
            self._own -= held
            self._at_rest -= held
        if step.kind in _GATHERS:
            self._own |= names
        if step.kind == "release":
            self._at_rest |= names & self._own
            self._own -= names
        self._saved = step.kind == "forward" or (self._saved and step.kind != "backward")
        self._loaded = self._loaded or step.kind == "load"
