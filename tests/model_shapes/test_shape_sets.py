"""The models' parameters against what is publicly known of them."""

from __future__ import annotations

import re

import pytest

from reference import DTYPES
from shardproof.errors import UsageError
from shardproof.model_shapes import Sizes, shape_set, shape_sets

# Parameters in all, each shared one counted once.
TOTALS = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_482_240,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "qwen2.5-7b": 7_615_616_512,
    "mixtral-8x7b": 46_702_792_704,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "phi-3-mini": 3_821_079_552,
    "deepseek-v3": 671_026_419_200,
}
# Tensors in the published weight files: their parameters, without buffers and scales.
TENSORS = {
    "gpt2": 148,
    "bert-base": 199,
    "llama3-8b": 291,
    "llama3-70b": 723,
    "qwen2.5-7b": 339,
    "mixtral-8x7b": 995,
    "gemma-2b": 164,
    "gemma-7b": 254,
    "phi-3-mini": 195,
    "deepseek-v3": 45_395,
}
SHAPES = [
    ("gpt2", "wte.weight", (50_257, 768), "float32", 1),
    ("gpt2-xl", "h.*.attn.c_attn.weight", (1600, 4800), "float32", 48),
    ("bert-base", "embeddings.token_type_embeddings.weight", (2, 768), "float32", 1),
    ("llama3-8b", "model.layers.*.self_attn.k_proj.weight", (1024, 4096), "bfloat16", 32),
    ("llama3-70b", "model.layers.*.mlp.down_proj.weight", (8192, 28_672), "bfloat16", 80),
    ("qwen2.5-7b", "model.layers.*.self_attn.k_proj.bias", (512,), "bfloat16", 28),
    ("qwen2.5-7b", "lm_head.weight", (152_064, 3584), "bfloat16", 1),
    ("mixtral-8x7b", "model.layers.*.block_sparse_moe.experts.*.w2.weight", (4096, 14_336), "bfloat16", 256),
    ("gemma-2b", "model.layers.*.self_attn.v_proj.weight", (256, 2048), "bfloat16", 18),
    ("phi-3-mini", "model.layers.*.self_attn.qkv_proj.weight", (9216, 3072), "bfloat16", 32),
    ("deepseek-v3", "model.layers.*.self_attn.kv_a_proj_with_mqa.weight", (576, 7168), "bfloat16", 61),
    ("deepseek-v3", "model.layers.*.mlp.experts.*.up_proj.weight", (2048, 7168), "bfloat16", 58 * 256),
]


def test_every_set_is_held_against_a_total() -> None:
    assert set(shape_sets()) == set(TOTALS)
    assert len(shape_sets()) >= 10


@pytest.mark.parametrize("name", shape_sets())
def test_total(name: str) -> None:
    assert shape_set(name).total == shape_set(name).known_total == TOTALS[name]


@pytest.mark.parametrize("name", TENSORS)
def test_number_of_tensors(name: str) -> None:
    assert sum(parameter.count for parameter in shape_set(name).parameters) == TENSORS[name]


@pytest.mark.parametrize(("name", "parameter", "shape", "dtype", "count"), SHAPES)
def test_shapes(name: str, parameter: str, shape: tuple[int, ...], dtype: str, count: int) -> None:
    found = next(each for each in shape_set(name).parameters if each.name == parameter)
    assert (found.shape, found.dtype, found.count) == (shape, dtype, count)


@pytest.mark.parametrize("name", shape_sets())
def test_every_set_is_well_formed(name: str) -> None:
    found = shape_set(name)
    names = [parameter.name for parameter in found.parameters]
    assert len(set(names)) == len(names)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+, config\.json", found.source)
    for parameter in found.parameters:
        assert parameter.dtype in DTYPES
        assert parameter.count >= 1
        assert all(size >= 1 for size in parameter.shape)
        assert ("*" in parameter.name) == (parameter.count > 1)


@pytest.mark.parametrize("name", set(shape_sets()) - {"gemma-2b", "gemma-7b", "deepseek-v3"})
def test_heads_span_the_hidden_size(name: str) -> None:
    sizes: Sizes = shape_set(name).sizes
    assert sizes.heads * sizes.head_size == sizes.hidden
    assert sizes.heads % sizes.kv_heads == 0


@pytest.mark.parametrize(("name", "nearest"), [("lama3-8b", "llama3-8b"), ("qwen2.5", "qwen2.5-7b"), ("GPT2", "gpt2")])
def test_unknown_names_list_the_known_and_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UsageError) as raised:
        shape_set(name)
    assert all(known in raised.value.expected for known in shape_sets())
    assert nearest in raised.value.todo
    assert repr(name) in str(raised.value)


def test_a_name_like_none() -> None:
    with pytest.raises(UsageError, match="deepseek-v3"):
        shape_set("")
