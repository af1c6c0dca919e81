"""The sizes a public configuration file states."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of one model. What a family does not have keeps its default.

    `tied` says that the output projection is the embedding. `experts` routed experts stand in for the feed-forward
    part of a layer, each of the size `expert_intermediate` (`intermediate` where that is 0). The last five are those of
    latent attention and of layers that stay dense (DeepSeek-V3).
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    positions: int = 0
    token_types: int = 0
    tied: bool = False
    attention_bias: bool = False
    experts: int = 0
    shared_experts: int = 0
    expert_intermediate: int = 0
    dense_layers: int = 0
    query_rank: int = 0
    kv_rank: int = 0
    rope_head_size: int = 0
    value_head_size: int = 0
