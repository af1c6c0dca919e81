"""The text of a failure: frozen as files, and the things it must hold whatever the failure is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from syrupy.assertion import SnapshotAssertion

from invariants import Claim, Evidence, Expected, Law, Place, RankStory, Seen, Step, Subject, Violation
from reference import Chunk, FlatPadded, Layout, Run
from shardproof.case import Case, Divergence, Group, LayoutSpec, Operation, Parameter
from shardproof.failure import Failure, failure_of, message_of
from shardproof.failure_text import describe
from shardproof.layouts import layouts_of


def law(slug: str, sentence: str) -> Law[Seen]:
    return Law(slug, "gather", sentence, "", (), (), lambda _: (), lambda _: iter(()))


ROUND_TRIP = law("round-trip", "A gathered parameter is bit for bit the parameter that was sharded.")
REFUSED = law("refused-everywhere", "What must be refused is refused by every rank.")
IN_TIME = law("bounded-time", "Every rank comes back in bounded time.")
LAYOUT = law("owned-exactly-once", "Every element of a parameter is stored by exactly one rank.")
TILE = law("buckets-tile", "Buckets tile their buffer.")
NORM = law("norm-matches-unsharded", "The norm of sharded gradients is the norm of the whole ones.")

STACK = "\n".join(f'  File "library.py", line {line}, in frame_{line}' for line in range(30))


def steps(case: Case, rank: int, *outcomes: str, **more: object) -> tuple[Step, ...]:
    """The first steps of the program as one rank of the main group performed them; `more` belongs to the last."""
    done = [
        Step(at, case.program[at].kind, case.acted_on(case.program[at]), rank, case.world_size, outcome=outcome)  # type: ignore[arg-type]
        for at, outcome in enumerate(outcomes)
    ]
    last = done[-1]
    fields = {name: getattr(last, name) for name in Step.__dataclass_fields__} | more
    return (*done[:-1], Step(**fields))  # type: ignore[arg-type]


def evidence(case: Case, stories: Sequence[RankStory], layouts: Mapping[str, Layout]) -> Evidence:
    subjects = {
        p.id: Subject(p.id, p.shape, p.dtype, {case.world_size: layouts[p.id]}, p.frozen, p.tied_to)
        for p in case.parameters
    }
    return Evidence(case.world_size, subjects, tuple(stories), tuple(Expected() for _ in case.program))


def failure(case: Case, broken: Law[Seen], seen: Evidence, *violations: Violation) -> Failure:
    replay = f"shardproof replay .shardproof/latest/{broken.slug}.json --impl their_gather"
    return failure_of(broken, violations, case=case, evidence=seen, implementation="their_gather", replay=replay)


def padding_in_the_result() -> Failure:
    """A shard of padding only is taken for data; the group does not start at rank 0."""
    case = Case(
        groups=(Group("main", (1, 2, 4, 5)),),
        parameters=(Parameter("weight", (5,), "bfloat16"),),
        program=(Operation("register"), Operation("gather")),
        seed=7,
    )
    ranks = [RankStory(pool, "done", steps(case, at, "done", "done")) for at, pool in enumerate(case.main.ranks)]
    seen = [Violation(ROUND_TRIP.slug, "ff ff", "7f 81", rank, "weight", 1, 4) for rank in range(4)]
    return failure(case, ROUND_TRIP, evidence(case, ranks, {"weight": FlatPadded((5,), 4)}), *reversed(seen))


def one_rank_refuses() -> Failure:
    """One rank raises and its peer waits until it is taken for hung."""
    case = Case(
        groups=(Group("main", (0, 1, 2)),),
        parameters=(Parameter("weight", (4, 3)), Parameter("bias", (4,), frozen=True)),
        program=(Operation("register"), Operation("gather", ("bias",))),
        divergences=(Divergence(1, "shape", "weight", (4, 2)),),
    )
    error = "RegistrationError: weight: shape (4, 2), expected (4, 3)"
    waiting = f"did not come back in time\nin all_gather\n{STACK}\n[W] gloo: connection reset " + "by peer " * 20
    ranks = [
        RankStory(0, "hung", steps(case, 0, "lost", error="did not come back in time"), waiting),
        RankStory(1, "done", steps(case, 1, "refused", error=error)),
        RankStory(2, "hung", steps(case, 2, "lost", error="did not come back in time"), waiting),
    ]
    layouts = {"weight": FlatPadded((4, 3), 3), "bias": FlatPadded((4,), 3)}
    seen = Violation(REFUSED.slug, "refused by rank 1, lost on ranks 0 and 2", "refused by every rank", step=0)
    return failure(case, REFUSED, evidence(case, ranks, layouts), seen)


def killed_by_a_signal() -> Failure:
    """A crash before any step was finished on one rank, and a rank that belongs to another group only."""
    case = Case(
        groups=(Group("main", (0, 1)), Group("later", (0, 1, 2))),
        parameters=(Parameter("weight", (3,)),),
        program=(Operation("register"), Operation("save"), Operation("load", group="later")),
    )
    ranks = [
        RankStory(0, "done", steps(case, 0, "done", "raised", error="RuntimeError: peer is gone\n\n  at save")),
        RankStory(1, "signalled", (), "was killed by signal 6\nFatal Python error: Aborted"),
        RankStory(2, "done", ()),
    ]
    seen = Violation(IN_TIME.slug, "killed by SIGABRT", "a result or an error", 1, step=1)
    return failure(case, IN_TIME, evidence(case, ranks, {"weight": FlatPadded((3,), 2)}), seen)


def wrong_claim_on_a_real_parameter() -> Failure:
    """Columns of an embedding, where the last rank claims to start too late; nothing of it was allocated."""
    shape, dim = (151_936, 4096), 1
    case = Case(
        groups=(Group("main", (0, 1, 2)),),
        parameters=(Parameter("embedding", shape, "bfloat16"),),
        program=(Operation("layout"),),
        layout=LayoutSpec("chunk", dim=dim),
    )
    layout = Chunk(shape, 3, dim)
    claims = [Claim(layout.shard_numel(rank), layout.padded_numel, layout.runs(rank), shape) for rank in range(3)]
    late = Run(0, 2733, 1363, 4096, 151_936)
    claims[2] = Claim(late.numel, layout.padded_numel, (late,), shape)
    ranks = [
        RankStory(rank, "done", steps(case, rank, "done", claims={"embedding": claims[rank]})) for rank in range(3)
    ]
    seen = Violation(LAYOUT.slug, "stored by no rank", "stored by rank 2", None, "embedding", 0, 4096 * 77 + 2732)
    return failure(case, LAYOUT, evidence(case, ranks, {"embedding": layout}), seen)


def overlapping_buckets() -> Failure:
    """The second of two buckets starts before the padding of the first one."""
    case = Case(
        groups=(Group("main", (0, 1)),),
        parameters=(Parameter("weight", (3,)), Parameter("bias", (2,))),
        program=(Operation("layout"),),
        layout=LayoutSpec("bucket", bucket_numel=3),
    )
    layouts = layouts_of(case.layout, case.parameters, 2)
    bias = Claim(1, 2, (Run(0, 0, 1, 1, 1),), (2,), Place(3, 3, 5))
    ranks = [RankStory(rank, "done", steps(case, rank, "done", claims={"bias": bias})) for rank in range(2)]
    seen = Violation(TILE.slug, "a bucket from 3 overlaps the one before it", "a start at 4", 0, "bias", 0)
    return failure(case, TILE, evidence(case, ranks, layouts), seen)


# A layout, and how it is told of.
IN_WORDS: list[tuple[LayoutSpec, str]] = [
    (LayoutSpec(), "flat padded"),
    (LayoutSpec(alignment=8), "flat padded to multiples of 8"),
    (LayoutSpec("chunk", dim=1), "chunked along dim 1"),
    (LayoutSpec("ragged", units=(3, 4)), "in whole units of 3, 4"),
    (LayoutSpec("grouped", group_size=2), "flat padded inside groups of 2 ranks"),
    (LayoutSpec("grouped_chunk", dim=1, group_size=2), "chunked along dim 1 inside groups of 2 ranks"),
    (
        LayoutSpec("two_dimensional", dim=1, mesh=(1, 4)),
        "chunked along dim 1 over 4 tensor and flat padded over 1 data ranks",
    ),
    (
        LayoutSpec("bucket", bucket_numel=5),
        "in flat buckets of at most 5 elements, from 0 on in the bucket from 0 to 8, one of 1",
    ),
]


@pytest.mark.parametrize(("layout", "words"), IN_WORDS, ids=[layout.kind for layout, _ in IN_WORDS])
def test_layouts_in_words(layout: LayoutSpec, words: str) -> None:
    case = Case((Group("main", (0, 1, 2, 3)),), (Parameter("w", (2, 4)),), (Operation("register"),), layout)
    ranks = [RankStory(rank, "done", steps(case, rank, "done")) for rank in range(4)]
    layouts = layouts_of(layout, case.parameters, 4)
    text = describe(failure(case, ROUND_TRIP, evidence(case, ranks, layouts), Violation("x", "1", "2", 0, "w", 0)))
    assert f"where the elements of 'w' (float32 [2, 4]), {words} over 4 ranks, lie:" in text


def nothing_to_point_at() -> Failure:
    """A number is wrong: no parameter, no element, many ranks alike."""
    case = Case(
        groups=(Group("main", tuple(range(8))),),
        parameters=(Parameter("weight", (3,)),),
        program=(Operation("register"), Operation("reduce"), Operation("norm")),
    )
    ranks = [RankStory(rank, "done", steps(case, rank, "done", "done", "done")) for rank in range(8)]
    seen = [Violation(NORM.slug, "inf", "5.0", rank, step=2) for rank in range(8)]
    return failure(case, NORM, evidence(case, ranks, {"weight": FlatPadded((3,), 8)}), *seen)


FAILURES = (
    padding_in_the_result,
    one_rank_refuses,
    killed_by_a_signal,
    wrong_claim_on_a_real_parameter,
    overlapping_buckets,
    nothing_to_point_at,
)


@pytest.mark.parametrize("make", FAILURES, ids=lambda make: make.__name__)
def test_text(make: type[Failure], text_file: SnapshotAssertion) -> None:
    assert describe(make()) == text_file


@pytest.mark.parametrize("make", FAILURES, ids=lambda make: make.__name__)
def test_what_every_text_holds(make: type[Failure]) -> None:
    shown = make()
    text = describe(shown)
    first = shown.first
    for part in (shown.law, shown.title, first.observed, first.expected, shown.replay, shown.implementation):
        assert part in text
    lines = text.splitlines()
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("make", FAILURES, ids=lambda make: make.__name__)
def test_the_case_can_be_copied(make: type[Failure]) -> None:
    shown = make()
    _, after = describe(shown).split("as Python:\n")
    defined: dict[str, object] = {}
    exec(after.partition("\n)\n")[0] + "\n)", defined)
    assert defined["case"] == shown.case


def test_violations_come_in_the_order_in_which_they_happened() -> None:
    first = padding_in_the_result().violations
    assert [violation.rank for violation in first] == [0, 1, 2, 3]


def test_identity_does_not_depend_on_the_case() -> None:
    shown, other = padding_in_the_result(), one_rank_refuses()
    assert shown.identity == "their_gather:round-trip"
    assert shown.identity != other.identity


def test_a_message_is_one_line() -> None:
    assert message_of(Violation("x", "1", "2", 0, "w", 3, 4)) == (
        "observed 1, expected 2 [rank 0, parameter w, step 3, element 4]"
    )
    assert message_of(Violation("x", "1", "2")) == "observed 1, expected 2"


def test_a_failure_has_violations() -> None:
    shown = padding_in_the_result()
    with pytest.raises(ValueError, match="expected at least one"):
        failure(shown.case, ROUND_TRIP, shown.evidence)
