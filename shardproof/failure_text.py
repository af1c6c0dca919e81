"""A failure as text, for a person who reads it once: what is broken, on what input, where, and how to see it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from invariants import Claim, Place, RankStory, Step, Violation
from reference import InBucket, Layout, Run, owners
from shardproof.case import Case, LayoutSpec
from shardproof.case_file import as_python
from shardproof.failure import Failure
from shardproof.index_map_text import coordinates, draw, legend

_MORE_VIOLATIONS, _MOST_NAMES = 4, 8
_DETAIL_HEAD, _DETAIL_TAIL, _DETAIL_WIDTH = 5, 12, 120


def describe(failure: Failure) -> str:
    """The whole failure as plain text, ending in a line break. The same failure gives the same text."""
    sections = (_headline, _finding, _smallest_case, _index_maps, _ranks, _replay)
    return "\n\n".join("\n".join(lines) for lines in (list(section(failure)) for section in sections) if lines) + "\n"


def _headline(failure: Failure) -> Iterator[str]:
    yield f"{failure.implementation} breaks {failure.law}"
    yield f"  {failure.title}"


def _finding(failure: Failure) -> Iterator[str]:
    first = failure.first
    yield f"  observed  {first.observed}"
    yield f"  expected  {first.expected}"
    where = _where(failure)
    if where:
        yield f"  where     {where}"
    others = _alike(failure.violations[1:])
    for ranks, other in others[:_MORE_VIOLATIONS]:
        place = ", ".join((*ranks, *_place(None, other.parameter, other.step, other.offset)))
        yield f"  also      {place or 'elsewhere'}: observed {other.observed}"
    if len(others) > _MORE_VIOLATIONS:
        yield f"  also      {len(others) - _MORE_VIOLATIONS} more"


def _alike(violations: Sequence[Violation]) -> list[tuple[tuple[str, ...], Violation]]:
    """Violations that differ in their rank only, told of once: the ranks in words (if any), and one of them."""
    groups: dict[Violation, list[str]] = {}
    for violation in violations:
        groups.setdefault(replace(violation, rank=None), []).extend(_place(violation.rank, None, None, None))
    return [((_listed(ranks),) if ranks else (), violation) for violation, ranks in groups.items()]


def _where(failure: Failure) -> str:
    first = failure.first
    parts = list(_place(first.rank, first.parameter, None, first.offset))
    subject = failure.evidence.subjects.get(first.parameter or "")
    if subject and len(subject.shape) > 1 and first.offset is not None and 0 <= first.offset < prod(subject.shape):
        parts[-1] += f" = {list(coordinates(subject.shape, first.offset))}"
    if first.step is not None and first.step < len(failure.case.program):
        parts.append(f"in step {first.step} ({failure.case.program[first.step].kind})")
    return ", ".join(parts)


def _place(rank: int | None, parameter: str | None, step: int | None, offset: int | None) -> Iterator[str]:
    if rank is not None:
        yield f"rank {rank}"
    if parameter is not None:
        yield f"parameter {parameter!r}"
    if step is not None:
        yield f"step {step}"
    if offset is not None:
        yield f"element {offset}"


def _smallest_case(failure: Failure) -> Iterator[str]:
    yield "the smallest case that shows it, as Python:"
    yield as_python(failure.case).strip("\n")


# The index map around the first wrong element.


@dataclass(frozen=True, slots=True)
class _Claimed:
    """What the ranks claim of a parameter's layout, in the model's form, so that it is drawn by the same lines."""

    claims: Mapping[int, Claim]
    world_size: int
    kind: str = "claimed"
    owes: frozenset[str] = frozenset()

    @property
    def shape(self) -> tuple[int, ...]:
        return next(iter(self.claims.values())).logical_shape

    @property
    def numel(self) -> int:
        return max((run.start + (run.count - 1) * run.stride + run.length for run in self._all_runs()), default=0)

    @property
    def padded_numel(self) -> int:
        return next(iter(self.claims.values())).padded_numel

    def shard_numel(self, rank: int) -> int:
        return self.claims[rank].shard_numel if rank in self.claims else 0

    def owned(self, rank: int) -> int:
        return sum(run.numel for run in self.runs(rank))

    def runs(self, rank: int) -> tuple[Run, ...]:
        return self.claims[rank].runs if rank in self.claims else ()

    def _all_runs(self) -> Iterator[Run]:
        return (run for claim in self.claims.values() for run in claim.runs)


def _index_maps(failure: Failure) -> Iterator[str]:
    first = failure.first
    subject = failure.evidence.subjects.get(first.parameter or "")
    if subject is None:
        return
    seen = failure.evidence.across(first.step) if first.step is not None else ()
    world_size = seen[0].world_size if seen else failure.evidence.world_size
    layout = subject.layouts.get(world_size)
    if layout is None:
        return
    how = _layout_words(failure.case.layout) + _bucket_words(layout)
    what = f"{subject.id!r} ({subject.dtype} {list(subject.shape)}), {how}"
    yield f"where the elements of {what} over {_count(world_size, 'rank')}, lie:"
    yield from _drawn(layout, first.offset, None)
    claimed = _claimed(seen, subject.id, layout)
    if claimed is not None:
        inside = first.offset is not None and 0 <= first.offset < layout.numel
        around = owners(layout, first.offset or 0)[0][1] if inside else None
        yield "where the implementation says that they lie:"
        yield from _drawn(claimed, first.offset, around)
    yield from _places(seen, subject.id, layout)


def _places(seen: Sequence[Step], parameter: str, layout: Layout) -> Iterator[str]:
    """Where ranks say that the parameter's bucket lies, where it is not what the model says."""
    if not isinstance(layout, InBucket):
        return
    model = Place(layout.buffer.starts[layout.index], *layout.buffer.bucket_of(layout.index))
    for step in seen:
        claim = step.claims.get(parameter)
        place = claim.place if claim is not None else None
        if place is not None and place != model:
            yield f"rank {step.rank} says: from {place.start} on in the bucket from {place.low} to {place.high}"


def _drawn(layout: Layout, wrong: int | None, around: int | None) -> Iterator[str]:
    drawing = draw(layout, wrong, around=around)
    yield from (f"  {line}" for line in drawing.splitlines())
    meaning = legend(drawing)
    if meaning:
        yield f"  ({meaning})"


def _claimed(seen: Sequence[Step], parameter: str, layout: Layout) -> _Claimed | None:
    """The ranks' claims of this step, where they made any and it is not what the model says."""
    claims = {step.rank: step.claims[parameter] for step in seen if parameter in step.claims}
    same = all(
        claim.runs == layout.runs(rank) and claim.shard_numel == layout.shard_numel(rank)
        for rank, claim in claims.items()
    )
    return None if same else _Claimed(claims, layout.world_size)


def _layout_words(spec: LayoutSpec) -> str:
    if spec.kind == "flat_padded":
        return "flat padded" + (f" to multiples of {spec.alignment}" if spec.alignment != 1 else "")
    if spec.kind == "chunk":
        return f"chunked along dim {spec.dim}"
    if spec.kind == "ragged":
        return f"in whole units of {', '.join(map(str, spec.units))}"
    if spec.kind == "grouped":
        return f"flat padded inside groups of {_count(spec.group_size or 1, 'rank')}"
    if spec.kind == "grouped_chunk":
        return f"chunked along dim {spec.dim} inside groups of {_count(spec.group_size or 1, 'rank')}"
    if spec.kind == "two_dimensional":
        data, tensor = spec.mesh or (1, 1)
        return f"chunked along dim {spec.dim} over {tensor} tensor and flat padded over {data} data ranks"
    capped = f" of at most {spec.bucket_numel} elements" if spec.bucket_numel else ""
    filled = f" that end once they hold {spec.bucket_least}" if spec.bucket_least else ""
    return f"in flat buckets{capped}{filled}"


def _bucket_words(layout: Layout) -> str:
    """Where in its buffer the parameter lies; empty where it has one to itself."""
    if not isinstance(layout, InBucket):
        return ""
    low, high = layout.buffer.bucket_of(layout.index)
    start, buckets = layout.buffer.starts[layout.index], len(layout.buffer.edges) - 1
    return f", from {start} on in the bucket from {low} to {high}, one of {buckets}"


# What each rank did. Ranks that did the same are told of once.


def _ranks(failure: Failure) -> Iterator[str]:
    yield "what each rank did:"
    stories = sorted(failure.evidence.ranks, key=lambda story: story.pool_rank)
    told = [(_story(failure, story), _name(failure.case, story)) for story in stories]
    order = {text: at for at, (text, _) in reversed(list(enumerate(told)))}
    for text, group in groupby(sorted(told, key=lambda pair: order[pair[0]]), key=lambda pair: pair[0]):
        names = [name for _, name in group]
        yield f"  {_listed(names)}{text}"


def _name(case: Case, story: RankStory) -> str:
    """The rank's number in the main group, and in the pool where that is another."""
    if story.pool_rank not in case.main.ranks:
        return f"pool rank {story.pool_rank} (not in the main group)"
    rank = case.main.ranks.index(story.pool_rank)
    return f"rank {rank}" if rank == story.pool_rank else f"rank {rank} (pool rank {story.pool_rank})"


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _story(failure: Failure, story: RankStory) -> str:
    """A rank's steps, and its last words where it did not come back; it begins behind the rank's name."""
    lost = story.ended != "done"
    lines = [f" {_ENDED[story.ended]}:" if lost else ":"]
    lines += [f"    {line}" for step in story.steps for line in _step_lines(failure, step)]
    if not story.steps:
        lines.append("    no step was finished")
    lines += [f"      | {line}" for line in _shortened(story.detail)] if lost else []
    return "\n".join(lines)


_ENDED = {
    "raised": "raised",
    "exited": "exited",
    "signalled": "was killed by a signal",
    "hung": "did not come back in time",
}


def _step_lines(failure: Failure, step: Step) -> Iterator[str]:
    operation = failure.case.program[step.index]
    acted_on = " ".join(operation.parameters) or "all"
    group = "" if operation.group == "main" else f" [group {operation.group}]"
    mark = "  <- here" if failure.first.step == step.index and failure.first.rank in (None, step.rank) else ""
    yield f"{step.index:>3}  {f'{step.kind} {acted_on}{group}':<24}  {step.outcome}{mark}".rstrip()
    if step.error and step.outcome != "lost":  # what a lost rank left is told below its steps
        yield from (f"     | {line}" for line in _shortened(step.error))
        yield from (f"     |   at {place}" for place in step.raised_at)


def _shortened(text: str) -> Iterator[str]:
    """The beginning and the end of a long text, each line cut to a width."""
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    left_out = len(lines) - _DETAIL_HEAD - _DETAIL_TAIL
    if left_out > 1:
        lines = [*lines[:_DETAIL_HEAD], f"... {left_out} lines left out ...", *lines[-_DETAIL_TAIL:]]
    for line in lines:
        yield line if len(line) <= _DETAIL_WIDTH else f"{line[: _DETAIL_WIDTH - 3]}..."


def _replay(failure: Failure) -> Iterator[str]:
    if failure.replay:
        yield f"see it again:  {failure.replay}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
