"""What backends carry, as tests see it. Asked before any policy: nobody is accused of what a transport cannot do."""

from __future__ import annotations

_COMMON = frozenset(
    {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool", "complex64", "complex128"}
)

# Seen with torch 2.13 (gloo) and with NCCL 2.30.7 under torch 2.11: dtypes of an all-gather.
CARRIES: dict[str, frozenset[str]] = {
    "gloo": _COMMON,
    "nccl": _COMMON | {"float8_e4m3fn", "float8_e5m2"},
}

_ADDED = frozenset({"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8"})

# Dtypes in which a reduce-scatter adds numbers up.
ADDS: dict[str, frozenset[str]] = {
    "gloo": _ADDED | {"complex64", "complex128"},
    "nccl": _ADDED | {"float8_e4m3fn", "float8_e5m2"},
}

# Those whose sums the model states exactly, wherever a gradient may have them.
REDUCES: dict[str, frozenset[str]] = {backend: adds & _ADDED for backend, adds in ADDS.items()}

BACKEND_OF = {"cpu": "gloo", "cuda": "nccl"}
