"""What reporters say, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from shardproof.events import RunStarted
from shardproof.failure_text import describe
from shardproof.finding import Finding
from shardproof.outcome import LawResult, RunResult


def started(event: RunStarted) -> str:
    """What is checked, and how."""
    sizes = ", ".join(map(str, event.world_sizes))
    about = event.description
    return (
        f"checking {about.name} on {about.backend} ({event.device}), world sizes {sizes}, "
        f"{len(event.laws)} laws, seed {event.seed}"
    )


def found(finding: Finding) -> str:
    """The failure in full, and whether it shows every time."""
    tries = finding.replays
    lines = [describe(finding.failure).rstrip()]
    if finding.flaky:
        often = f"in {tries.broken} of {tries.tried} replays on fresh ranks"
        cause = "what the implementation keeps from one case to the next, or timing, has a part in it"
        lines = [f"{finding.failure.law} does not show every time: {often}; {cause}.\n", *lines]
    if not finding.attempts:
        lines.append("The case is as it was drawn; there was no time to make it smaller.")
    return "\n".join([*lines, ""])


def finished(result: RunResult) -> Iterator[str]:
    """The run's outcome: counts, laws that need a word, and one last line."""
    seconds = result.timings
    parts = {"drawing": seconds.drawing, "running": seconds.running, "judging": seconds.judging}
    parts |= {"shrinking": seconds.shrinking, "replaying": seconds.replaying}
    spent = ", ".join(f"{name} {value:.1f}" for name, value in parts.items() if value >= 0.05)
    yield f"{result.cases} cases in {seconds.total:.1f} s ({spent})"
    yield "cases with " + ", ".join(f"{name} {count}" for name, count in result.features.items())
    yield from _laws(result)
    for known in result.stale:
        yield f"known deviation from {known.law} no longer deviates; take its entry out: {known.condition.text}"
    yield _last_line(result)


def _laws(result: RunResult) -> Iterator[str]:
    by_outcome: dict[str, list[LawResult]] = {"held": [], "broken": [], "deviates": [], "not judged": []}
    for law in result.laws:
        by_outcome[law.outcome].append(law)
    yield ", ".join(f"{len(laws)} {outcome}" for outcome, laws in by_outcome.items() if laws or outcome == "held")
    reasons: dict[str, list[str]] = {}
    for law in by_outcome["not judged"]:
        reasons.setdefault(law.reason, []).append(law.law)
    for reason, slugs in reasons.items():
        yield f"  not judged  {', '.join(slugs)}: {reason}"
    for law in by_outcome["deviates"]:
        yield f"  deviates    {law.law}, as is known, in {law.deviating_cases} of {law.cases} cases"
    for law in by_outcome["broken"]:
        cases = f"in {law.broken_cases} of {law.cases} cases" if law.broken_cases else "while another case got smaller"
        yield f"  broken      {law.law} {cases}"


def _last_line(result: RunResult) -> str:
    if result.outcome == "broken":
        broken = [finding.law for finding in result.findings] or ["a known deviation that is none any more"]
        return f"BROKEN: {', '.join(broken)}"
    if result.outcome == "could not judge":
        return f"COULD NOT JUDGE: {result.why_not}"
    return "all judged laws hold"
