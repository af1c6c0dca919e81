"""What the pool calls on a rank: describe an implementation, or run one case on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from shardproof.case import Case
from shardproof.case_file import decode_trusted
from shardproof.rank_side.observer import Observer
from shardproof.rank_side.probe import probe
from shardproof.rank_side.program import State, perform
from shardproof.rank_side.sessions import Loaded, NotAnImplementation, load
from shardproof.ranks import Context, Failed
from shardproof.wire import pack

Answer = tuple[Any, Sequence[bytes]]


def describe(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # noqa: ARG001  # the pool's form
    """What an implementation is and offers, after one smallest case of it; {"problem": text} where it is none."""
    try:
        loaded = load(payload["target"])
        problem = probe(loaded, context.group((context.rank,)), torch.device(context.device))
    except NotAnImplementation as error:
        return {"problem": str(error)}, ()
    if problem:
        return {"problem": f"{loaded.target}: {problem}"}, ()
    return {
        "form": loaded.form,
        "offers": loaded.offers,
        "promises": sorted(loaded.attribute("promises", ())),
        "layouts": list(loaded.attribute("layouts", ("flat_padded",))),
        "alignments": list(loaded.attribute("alignments", (1,))),
        "specs": [dict(spec) for spec in loaded.attribute("specs", ())],
        "needs_default_group": bool(loaded.attribute("needs_default_group", False)),
        "doc": (loaded.object.__doc__ or "").strip().partition("\n")[0],
        "torch": torch.__version__,
    }, ()


def run_case(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # noqa: ARG001  # the pool's form
    """Perform a case's program: the packed steps, their tensors' bytes, and the policy.

    Every rank tells the policy, which is the same everywhere, because any of them may be lost.
    """
    case = decode_trusted(payload["case"])
    loaded = load(payload["target"])
    state = State(
        case=case,
        loaded=loaded,
        pool_rank=context.rank,
        device=torch.device(context.device),
        folder=Path(payload["folder"]),
        poison=payload["poison"],
        group_of=context.group,
        observer=Observer(payload["poison"]),
    )
    for group in case.groups:  # made in one order everywhere, before any rank can be lost
        if context.rank in group.ranks:
            context.group(group.ranks)
    steps = list(perform(state, context.note))
    packed, tensors = pack(steps)
    value: dict[str, Any] = {"steps": packed, "policy": _policy(loaded, case)}
    if steps and steps[-1].outcome != "done":
        # Raised, so that the pool knows peers may wait for this rank; an unfinished prefetch may still be under way.
        in_flight = any(step.kind == "prefetch" for step in steps)
        raise Failed(value, tensors, contained=not in_flight) from RuntimeError(steps[-1].error)
    return value, tensors


def _policy(loaded: Loaded, case: Case) -> tuple[str, str, str] | None:
    """The implementation's own answer for this case as (answer, reason, link); None where it has no policy."""
    policy = loaded.function("policy")
    if policy is None:
        return None
    answer = policy(case)
    answer, reason, link = (answer, "", "") if isinstance(answer, str) else (*answer, "", "")[:3]
    if answer not in ("accept", "refuse", "unspecified"):
        raise ValueError(f"policy answered {answer!r}, expected accept, refuse or unspecified")
    return answer, reason, link
