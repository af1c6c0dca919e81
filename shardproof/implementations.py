"""The implementations that are known by name, and how any other one is named. Nothing is imported to answer that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType

from shardproof.errors import UsageError
from shardproof.names import nearest

# What every rank runs, whatever is under test; imported once where ranks are born from.
_RANK_SIDE = "shardproof.rank_side.entry"


@dataclass(frozen=True, slots=True)
class Target:
    """Where an implementation is: `target` is "pkg.mod" or "pkg.mod:attr".

    `preload` are modules that ranks find imported; they run no tensor operation when they are. `summary` is one line
    for a list of names. `install` is the command that installs what it needs beyond our own dependencies.
    """

    target: str
    preload: tuple[str, ...]
    summary: str
    install: str = ""


KNOWN: Mapping[str, Target] = MappingProxyType(
    {
        "gpu_impl": Target(
            "gpu_impl",
            (_RANK_SIDE, "gpu_impl"),
            "padded shards over NCCL or gloo, the implementation that comes with Shardproof",
        ),
        "fsdp2": Target(
            "shardproof.adapters.fsdp2",
            # torch imports its compiler in the first DTensor, which takes seconds.
            (_RANK_SIDE, "shardproof.adapters.fsdp2", "torch._dynamo"),
            "torch.distributed.fsdp.fully_shard, chunked along one dimension",
        ),
        "fsdp2_hsdp": Target(
            "shardproof.adapters.fsdp2_forms:Hsdp",
            (_RANK_SIDE, "shardproof.adapters.fsdp2_forms", "torch._dynamo"),
            "the same over two dimensions: sharded inside groups of ranks, replicated over them",
        ),
        "fsdp2_resharded": Target(
            "shardproof.adapters.fsdp2_forms:Resharded",
            (_RANK_SIDE, "shardproof.adapters.fsdp2_forms", "torch._dynamo"),
            "the same with reshard_after_forward=True",
        ),
        "fsdp2_resharded_in_part": Target(
            "shardproof.adapters.fsdp2_forms:ReshardedInPart",
            (_RANK_SIDE, "shardproof.adapters.fsdp2_forms", "torch._dynamo"),
            "the same with reshard_after_forward as an int, the smallest factor of the world size",
        ),
        "dtensor": Target(
            "shardproof.adapters.dtensor",
            (_RANK_SIDE, "shardproof.adapters.dtensor", "torch._dynamo"),
            "torch.distributed.tensor, placement Shard over a one-dimensional mesh",
        ),
        "fsdp1": Target(
            "shardproof.adapters.fsdp1",
            (_RANK_SIDE, "shardproof.adapters.fsdp1", "torch._dynamo"),
            "torch.distributed.fsdp.FullyShardedDataParallel, flat and padded",
        ),
        "fsdp1_orig_params": Target(
            "shardproof.adapters.fsdp1:OrigParams",
            (_RANK_SIDE, "shardproof.adapters.fsdp1", "torch._dynamo"),
            "the same with use_orig_params",
        ),
        "deepspeed_zero3": Target(
            "shardproof.adapters.deepspeed_zero3",
            (_RANK_SIDE, "shardproof.adapters.deepspeed_zero3"),
            "deepspeed.zero.Init and GatheredParameters, flat and padded",
            install="pip install 'shardproof[deepspeed]'",
        ),
        "deepcompile_z3": Target(
            "shardproof.adapters.deepcompile_z3",
            (_RANK_SIDE, "shardproof.adapters.deepcompile_z3"),
            "DeepCompile's native ZeRO-3 operations, flat and padded, on CUDA only",
            install="pip install 'shardproof[deepspeed]', with nvcc and nccl.h",
        ),
        "megatron_core": Target(
            "shardproof.adapters.megatron_core",
            (_RANK_SIDE, "shardproof.adapters.megatron_core"),
            "megatron.core.distributed with a distributed optimizer, in buckets",
            install="pip install 'shardproof[megatron]'",
        ),
        "list_all_gather": Target(
            "shardproof.adapters.list_all_gather",
            (_RANK_SIDE,),
            "the plain control: an all-gather into a list of buffers, two functions",
        ),
    }
)


def resolve(name: str) -> Target:
    """A known name, "pkg.mod:attr", "pkg.mod", or the name of a module at the top of the path.

    Whether the target can be imported is found out on the ranks. Raises UsageError for anything else, with the known
    names and the nearest of them.
    """
    if name in KNOWN:
        return KNOWN[name]
    if _names_an_object(name):
        return Target(name, (_RANK_SIDE,), "")
    raise UsageError(
        f"there is no implementation {name!r}",
        where="--impl",
        expected=f"one of {', '.join(KNOWN)}, or pkg.mod:attr",
        todo=nearest(name, tuple(KNOWN)),
    )


def _names_an_object(name: str) -> bool:
    """Whether the name has the form of a module or an object in one; a single word must be a module that exists."""
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), *(attribute.split(".") if colon else ())]
    if not all(part.isidentifier() for part in parts):
        return False
    return bool(colon) or "." in module or find_spec(module) is not None
