"""Training on shards: every implementation that offers it agrees with the model, at two world sizes in one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from shardproof.case import Case, Group, LayoutSpec, Operation, Parameter
from shardproof.engine import Engine
from shardproof.running import Verdict

NEITHER = {"scalars-untouched", "counters-reset"}
# An implementation, its layout, which of these laws it cannot be judged by, and which parameters it cannot train with:
# FSDP1 flattens no integers, and does not clip float64.
TRAINED: list[tuple[str, str, set[str], str]] = [
    ("gpu_impl", "flat_padded", set(), ""),
    ("fsdp2", "chunk", NEITHER, ""),
    ("dtensor", "chunk", NEITHER, ""),
    ("fsdp1", "flat_padded", NEITHER, "iw"),
    ("fsdp1_orig_params", "flat_padded", NEITHER, "iw"),
    ("shardproof.fault_models.training:Trained", "flat_padded", {"counters-reset"}, ""),
]
LAWS = {"training-parity", "norm-matches-unsharded", "reshard-identity", "scalars-untouched", "counters-reset"}
MIXED = (
    Parameter("a", (5, 2)),
    Parameter("t", (5, 2), tied_to="a"),
    Parameter("h", (3,), "bfloat16"),
    Parameter("f", (2,), "float64", frozen=True),
    Parameter("i", (4,), "int64", frozen=True),
    Parameter("c", (7,), comm_dtype="bfloat16"),
    Parameter("w", (1,), "float64"),
)
PROGRAM = (
    "register reduce reduce norm step=4 gather forward=1 backward norm clip=1000000 norm step=5 gather "
    "accumulate forward=2 backward clip=3 norm step=5 gather save"
)
ELSEWHERE = "load gather forward=3 backward norm clip=2 step=5 gather save"


def case(kind: str, ranks: Sequence[int], others: Sequence[int], parameters: tuple[Parameter, ...]) -> Case:
    operations = [*_operations(PROGRAM, "main"), *_operations(ELSEWHERE, "other")]
    groups = (Group("main", tuple(ranks)), Group("other", tuple(others)))
    return Case(groups, parameters, tuple(operations), LayoutSpec(kind))  # type: ignore[arg-type]  # a kind by the table


def _operations(words: str, group: str) -> Iterator[Operation]:
    for word in words.split():
        kind, _, value = word.partition("=")
        yield Operation(kind, (), group, int(value or 0))  # type: ignore[arg-type]  # kinds by name


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {judgement.law: judgement.outcome for judgement in verdict.judgements if judgement.law in LAWS}


@pytest.mark.parametrize(("name", "kind", "unjudged", "left_out"), TRAINED, ids=[row[0] for row in TRAINED])
@pytest.mark.parametrize("parameters", [MIXED[:1], MIXED], ids=["one", "mixed"])
@pytest.mark.parametrize(("ranks", "others"), [((0,), (0, 1)), ((1, 2, 3), (0, 1)), ((0, 1), (0, 1, 2, 3))])
def test_training_is_that_of_the_model(
    engine_of: Callable[[str], Engine],
    name: str,
    kind: str,
    unjudged: set[str],
    left_out: str,
    ranks: Sequence[int],
    others: Sequence[int],
    parameters: tuple[Parameter, ...],
) -> None:
    able = tuple(p for p in parameters if p.id not in left_out)
    verdict = engine_of(name).judge(case(kind, ranks, others, able), twice=True)
    assert not verdict.broken, "\n".join(map(str, verdict.broken))
    assert all(story.ended == "done" for story in verdict.evidence.ranks)
    assert outcomes(verdict) == {law: "not judged" if law in unjudged else "held" for law in LAWS}
