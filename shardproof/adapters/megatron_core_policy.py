"""What Megatron-Core's own documentation and code say that its distributed optimizer takes; none of our laws."""

from __future__ import annotations

from shardproof.case import Case, Parameter
from shardproof.contents import with_gradient

Answer = tuple[str, str, str]

_CORE = "https://github.com/NVIDIA/Megatron-LM/blob/core_v0.16.1/megatron/core"
BUFFER = f"{_CORE}/distributed/param_and_grad_buffer.py"
_DDP = f"{_CORE}/distributed/distributed_data_parallel.py"
_OPTIMIZER = f"{_CORE}/optimizer/distrib_optimizer.py"
_TAKES = ("float32", "float16", "bfloat16")


def policy(case: Case) -> Answer:
    """accept, refuse or unspecified; why; and where Megatron-Core says so."""
    if case.divergences:
        return "unspecified", "DistributedDataParallel assumes that all ranks wrap the same module", _DDP
    for parameter in case.parameters:
        answer = _of_parameter(parameter)
        if answer is not None:
            return answer
    if _reduces_part(case):
        return "unspecified", "what was accumulated for other parameters is reduced with this one", _DDP
    return "accept", "buckets are padded so that every data-parallel rank has an equal share", BUFFER


def _of_parameter(p: Parameter) -> Answer | None:
    if p.frozen:
        return "unspecified", f"{p.id} is frozen, and stays outside of the buffers, whole on every rank", _DDP
    if p.dtype not in _TAKES:
        return "unspecified", f"{p.id} is {p.dtype}; the distributed optimizer takes {', '.join(_TAKES)}", _OPTIMIZER
    if (p.grad_dtype or p.dtype) != p.dtype or (p.comm_dtype or p.dtype) != p.dtype:
        return "unspecified", f"the gradient of {p.id} is to have a dtype of its own; one option sets them all", _DDP
    return None


def _reduces_part(case: Case) -> bool:
    """Whether a reduction leaves out a parameter that gradients were accumulated for."""
    pending: set[str] = set()
    for operation in case.program:
        named = {parameter.id for parameter in with_gradient(case, operation)}
        if operation.kind == "accumulate":
            pending |= named
        elif operation.kind == "reduce":
            pending -= named
            if pending:
                return True
    return False
