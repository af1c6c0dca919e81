"""From a model's sizes to its parameters, one function a family. Names are those of the public weight files.

A star stands for the number of a layer, or of an expert; the last entry of a row counts how often the shape occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from shardproof.model_shapes.sizes import Sizes

Row = tuple[str, tuple[int, ...], int]


def gpt2(s: Sizes) -> Iterator[Row]:
    """Weights of GPT-2 lie (in, out), the reverse of a torch Linear; query, key and value are one."""
    yield "wte.weight", (s.vocabulary, s.hidden), 1
    yield "wpe.weight", (s.positions, s.hidden), 1
    for name, inputs, outputs in (
        ("attn.c_attn", s.hidden, 3 * s.hidden),
        ("attn.c_proj", s.hidden, s.hidden),
        ("mlp.c_fc", s.hidden, s.intermediate),
        ("mlp.c_proj", s.intermediate, s.hidden),
    ):
        yield f"h.*.{name}.weight", (inputs, outputs), s.layers
        yield f"h.*.{name}.bias", (outputs,), s.layers
    yield from _layer_norm("h.*.ln_1", s, s.layers)
    yield from _layer_norm("h.*.ln_2", s, s.layers)
    yield from _layer_norm("ln_f", s, 1)


def bert(s: Sizes) -> Iterator[Row]:
    """The encoder with embeddings and pooler, without a head for a task."""
    yield "embeddings.word_embeddings.weight", (s.vocabulary, s.hidden), 1
    yield "embeddings.position_embeddings.weight", (s.positions, s.hidden), 1
    yield "embeddings.token_type_embeddings.weight", (s.token_types, s.hidden), 1
    yield from _layer_norm("embeddings.LayerNorm", s, 1)
    layer = "encoder.layer.*"
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        yield from _linear(f"{layer}.attention.{part}", s.hidden, s.hidden, s.layers)
    yield from _layer_norm(f"{layer}.attention.output.LayerNorm", s, s.layers)
    yield from _linear(f"{layer}.intermediate.dense", s.hidden, s.intermediate, s.layers)
    yield from _linear(f"{layer}.output.dense", s.intermediate, s.hidden, s.layers)
    yield from _layer_norm(f"{layer}.output.LayerNorm", s, s.layers)
    yield from _linear("pooler.dense", s.hidden, s.hidden, 1)


def decoder(s: Sizes) -> Iterator[Row]:
    """Llama and its relatives: grouped-query attention, and a gated feed-forward part or routed experts."""
    attention = "model.layers.*.self_attn"
    for name, heads in (("q_proj", s.heads), ("k_proj", s.kv_heads), ("v_proj", s.kv_heads)):
        yield f"{attention}.{name}.weight", (heads * s.head_size, s.hidden), s.layers
        if s.attention_bias:
            yield f"{attention}.{name}.bias", (heads * s.head_size,), s.layers
    yield f"{attention}.o_proj.weight", (s.hidden, s.heads * s.head_size), s.layers
    if s.experts:
        yield "model.layers.*.block_sparse_moe.gate.weight", (s.experts, s.hidden), s.layers
        expert, count = "model.layers.*.block_sparse_moe.experts.*", s.layers * s.experts
        yield from _gated(expert, ("w1", "w3", "w2"), s, s.intermediate, count)
    else:
        yield from _gated("model.layers.*.mlp", ("gate_proj", "up_proj", "down_proj"), s, s.intermediate, s.layers)
    yield from _around_layers(s)


def phi3(s: Sizes) -> Iterator[Row]:
    """As `decoder`, with query, key and value in one matrix, and gate and up in another."""
    layer = "model.layers.*"
    yield f"{layer}.self_attn.qkv_proj.weight", ((s.heads + 2 * s.kv_heads) * s.head_size, s.hidden), s.layers
    yield f"{layer}.self_attn.o_proj.weight", (s.hidden, s.heads * s.head_size), s.layers
    yield f"{layer}.mlp.gate_up_proj.weight", (2 * s.intermediate, s.hidden), s.layers
    yield f"{layer}.mlp.down_proj.weight", (s.hidden, s.intermediate), s.layers
    yield from _around_layers(s)


def deepseek_v3(s: Sizes) -> Iterator[Row]:
    """Latent attention; the first layers dense, the others with routed and shared experts."""
    attention, key = "model.layers.*.self_attn", s.head_size + s.rope_head_size
    yield f"{attention}.q_a_proj.weight", (s.query_rank, s.hidden), s.layers
    yield f"{attention}.q_a_layernorm.weight", (s.query_rank,), s.layers
    yield f"{attention}.q_b_proj.weight", (s.heads * key, s.query_rank), s.layers
    yield f"{attention}.kv_a_proj_with_mqa.weight", (s.kv_rank + s.rope_head_size, s.hidden), s.layers
    yield f"{attention}.kv_a_layernorm.weight", (s.kv_rank,), s.layers
    yield f"{attention}.kv_b_proj.weight", (s.kv_heads * (s.head_size + s.value_head_size), s.kv_rank), s.layers
    yield f"{attention}.o_proj.weight", (s.hidden, s.heads * s.value_head_size), s.layers
    names, sparse = ("gate_proj", "up_proj", "down_proj"), s.layers - s.dense_layers
    yield from _gated("model.layers.*.mlp", names, s, s.intermediate, s.dense_layers)
    yield "model.layers.*.mlp.gate.weight", (s.experts, s.hidden), sparse
    yield "model.layers.*.mlp.gate.e_score_correction_bias", (s.experts,), sparse
    yield from _gated("model.layers.*.mlp.experts.*", names, s, s.expert_intermediate, sparse * s.experts)
    shared = s.shared_experts * s.expert_intermediate
    yield from _gated("model.layers.*.mlp.shared_experts", names, s, shared, sparse)
    yield from _around_layers(s)


FAMILIES: Mapping[str, Callable[[Sizes], Iterable[Row]]] = {
    "gpt2": gpt2,
    "bert": bert,
    "decoder": decoder,
    "phi3": phi3,
    "deepseek_v3": deepseek_v3,
}


def _around_layers(s: Sizes) -> Iterator[Row]:
    """Embedding, norms and output projection of a decoder."""
    yield "model.embed_tokens.weight", (s.vocabulary, s.hidden), 1
    yield "model.layers.*.input_layernorm.weight", (s.hidden,), s.layers
    yield "model.layers.*.post_attention_layernorm.weight", (s.hidden,), s.layers
    yield "model.norm.weight", (s.hidden,), 1
    if not s.tied:
        yield "lm_head.weight", (s.vocabulary, s.hidden), 1


def _gated(prefix: str, names: tuple[str, str, str], s: Sizes, intermediate: int, count: int) -> Iterator[Row]:
    """Gate, up and down of a gated feed-forward part."""
    gate, up, down = names
    yield f"{prefix}.{gate}.weight", (intermediate, s.hidden), count
    yield f"{prefix}.{up}.weight", (intermediate, s.hidden), count
    yield f"{prefix}.{down}.weight", (s.hidden, intermediate), count


def _linear(name: str, inputs: int, outputs: int, count: int) -> Iterator[Row]:
    yield f"{name}.weight", (outputs, inputs), count
    yield f"{name}.bias", (outputs,), count


def _layer_norm(name: str, s: Sizes, count: int) -> Iterator[Row]:
    yield f"{name}.weight", (s.hidden,), count
    yield f"{name}.bias", (s.hidden,), count
