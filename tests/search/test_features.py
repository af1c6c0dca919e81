from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shardproof.case import Case, Delay, Divergence, Group, LayoutSpec, Operation, Parameter
from shardproof.features import features, required
from tests.search.planted import describe

EVEN = Parameter("a", (4,))


def case(*parameters: Parameter, ranks: Sequence[int] = (0, 1), program: str = "register", **changes: Any) -> Case:
    operations = tuple(Operation(kind) for kind in program.split())  # type: ignore[arg-type]  # kinds by name
    return Case((Group("main", tuple(ranks)),), parameters or (EVEN,), operations, **changes)


# A case, and everything it exercises.
SHOWS: list[tuple[Case, set[str]]] = [
    (case(), set()),
    (case(ranks=(0,)), {"world-size-1"}),
    (case(ranks=(1, 2)), {"sub-group"}),
    (case(Parameter("a", (5,))), {"padding"}),
    (case(Parameter("a", (1,))), {"padding", "padding-only-rank", "numel-below-world-size"}),
    (case(Parameter("a", ())), {"padding", "padding-only-rank", "numel-below-world-size", "scalar"}),
    (case(Parameter("a", (0,))), {"empty-parameter"}),
    (case(EVEN, Parameter("b", (4,), "int8", frozen=True)), {"several-parameters", "mixed-dtypes", "frozen"}),
    (case(EVEN, Parameter("b", (4,), tied_to="a")), {"several-parameters", "tied"}),
    (case(Parameter("a", (2, 2), strides=(1, 2), storage_offset=1)), {"non-contiguous", "storage-offset"}),
    (case(Parameter("a", (4,), grad_buffer="partition")), {"partition-grad"}),
    (case(Parameter("a", (4,), grad_buffer="absent")), {"absent-grad"}),
    (case(layout=LayoutSpec(alignment=4)), {"padding", "padding-only-rank", "aligned"}),
    (case(Parameter("a", (3, 2)), layout=LayoutSpec("chunk")), {"padding", "chunk"}),
    (
        case(EVEN, Parameter("b", (4,)), layout=LayoutSpec("bucket")),
        {"several-parameters", "bucket", "padding-only-rank"},
    ),
    (
        case(EVEN, Parameter("b", (4,)), layout=LayoutSpec("bucket", bucket_numel=7)),
        {"several-parameters", "bucket", "several-buckets"},
    ),
    (
        case(EVEN, Parameter("b", (5,)), layout=LayoutSpec("bucket", bucket_numel=7)),
        {"several-parameters", "bucket", "several-buckets", "padding"},
    ),
    (
        case(Parameter("a", (5,)), Parameter("b", (4,)), layout=LayoutSpec("bucket", bucket_numel=7)),
        {"several-parameters", "bucket", "several-buckets", "padding", "padding-before-last-bucket"},
    ),
    (
        case(EVEN, Parameter("b", (4,), "int8"), layout=LayoutSpec("bucket", bucket_numel=7)),
        {"several-parameters", "mixed-dtypes", "bucket"},
    ),
    (case(layout=LayoutSpec("ragged", units=(3,))), {"padding", "ragged"}),
    (case(layout=LayoutSpec("grouped", group_size=2)), set()),
    (case(layout=LayoutSpec("grouped", group_size=1)), {"replicas"}),
    (case(layout=LayoutSpec("grouped_chunk", group_size=1)), {"replicas"}),
    (case(layout=LayoutSpec("two_dimensional", mesh=(1, 2))), set()),
    (case(ranks=(0, 1, 2, 3), layout=LayoutSpec("two_dimensional", mesh=(2, 2))), {"mesh"}),
    (case(divergences=(Divergence(0, "refuses"),)), {"divergent-ranks"}),
    (case(delays=(Delay(0, 0, 1),)), {"delayed-rank"}),
    (case(program="register prefetch wait use release"), {"asynchronous", "held-result", "release"}),
    (case(program="register update reduce save load"), {"update", "reduction"}),
    (case(program="register forward backward clip step"), {"training", "clipping"}),
    (
        Case(
            (Group("main", (0, 1)), Group("other", (0,))),
            (EVEN,),
            (Operation("register"), Operation("save"), Operation("load", group="other")),
        ),
        {"reshard"},
    ),
]


@pytest.mark.parametrize(("shown", "names"), SHOWS, ids=[str(n) for n in range(len(SHOWS))])
def test_features(shown: Case, names: set[str]) -> None:
    assert features(shown) == names


ALWAYS = {"empty-parameter", "several-parameters", "non-contiguous", "storage-offset", "mixed-dtypes"}
PADDED = {"padding", "padding-only-rank", "numel-below-world-size"}
FUNCTIONS = ("gather", "use", "update")
# What is offered, world sizes, pool size, and what a run of it must have seen.
NEEDS: list[tuple[dict[str, Any], Sequence[int], int, set[str]]] = [
    ({"offers": FUNCTIONS}, (1,), 1, ALWAYS | {"scalar", "world-size-1", "update"}),
    ({"offers": FUNCTIONS}, (2,), 2, ALWAYS | PADDED | {"scalar", "update"}),
    ({"offers": FUNCTIONS}, (2,), 3, ALWAYS | PADDED | {"scalar", "update", "sub-group"}),
    ({"offers": FUNCTIONS, "alignments": (1, 2)}, (2,), 2, ALWAYS | PADDED | {"scalar", "update", "aligned"}),
    ({"offers": FUNCTIONS, "layouts": ("chunk",)}, (2,), 2, ALWAYS | PADDED | {"chunk", "update"}),
    (
        {"offers": FUNCTIONS, "layouts": ("bucket",), "alignments": (1, 2)},
        (2,),
        2,
        ALWAYS | PADDED | {"scalar", "bucket", "several-buckets", "padding-before-last-bucket", "aligned", "update"},
    ),
    ({"offers": FUNCTIONS, "layouts": ("ragged",)}, (2,), 2, ALWAYS | PADDED | {"scalar", "ragged", "update"}),
    ({"offers": FUNCTIONS, "layouts": ("grouped",)}, (2,), 2, ALWAYS | PADDED | {"scalar", "replicas", "update"}),
    ({"offers": FUNCTIONS, "layouts": ("grouped_chunk",)}, (2,), 2, ALWAYS | PADDED | {"replicas", "update"}),
    ({"offers": FUNCTIONS, "layouts": ("two_dimensional",)}, (2, 3), 3, ALWAYS | PADDED | {"sub-group", "update"}),
    (
        {"offers": FUNCTIONS, "layouts": ("two_dimensional",)},
        (3, 4),
        4,
        ALWAYS | PADDED | {"mesh", "sub-group", "update"},
    ),
    ({"offers": FUNCTIONS, "needs_default_group": True}, (2,), 3, ALWAYS | PADDED | {"scalar", "update"}),
    (
        {},
        (1, 2),
        3,
        ALWAYS
        | PADDED
        | {"scalar", "sub-group", "world-size-1", "divergent-ranks", "asynchronous", "update", "reduction", "reshard"}
        | {"training", "clipping", "training-resumed"},
    ),
]


@pytest.mark.parametrize(
    ("changes", "world_sizes", "pool_size", "names"), NEEDS, ids=[str(n) for n in range(len(NEEDS))]
)
def test_required(changes: dict[str, Any], world_sizes: Sequence[int], pool_size: int, names: set[str]) -> None:
    assert required(describe(**changes), world_sizes, pool_size) == names
