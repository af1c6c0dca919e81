"""The CPU model: what sharding must do, said once over index maps. NumPy only; other rooms import from here."""

from reference.arithmetic import align_up, ceil_div, clamp, min_
from reference.bucketed import Bucketed, InBucket
from reference.chunk import Chunk
from reference.dtypes import DTYPES, Dtype, decode, encode, exact_bound
from reference.flat_padded import FlatPadded, owned_of, shard_numel_of
from reference.grouped import Grouped
from reference.layout import Layout
from reference.maps import PADDING, index_map, locate, owners
from reference.operations import gather, norm_squared, partition, reduce_scatter, reshard
from reference.ragged import Ragged, whole_units
from reference.runs import Run
from reference.two_dimensional import TwoDimensional

__all__ = [
    "DTYPES",
    "PADDING",
    "Bucketed",
    "Chunk",
    "Dtype",
    "FlatPadded",
    "Grouped",
    "InBucket",
    "Layout",
    "Ragged",
    "Run",
    "TwoDimensional",
    "align_up",
    "ceil_div",
    "clamp",
    "decode",
    "encode",
    "exact_bound",
    "gather",
    "index_map",
    "locate",
    "min_",
    "norm_squared",
    "owned_of",
    "owners",
    "partition",
    "reduce_scatter",
    "reshard",
    "shard_numel_of",
    "whole_units",
]
