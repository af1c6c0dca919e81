"""Parameter shapes of public models, as data with their source: real input for layouts and gathers."""

from shardproof.model_shapes.reduced import reduced
from shardproof.model_shapes.sets import ModelParameter, ShapeSet, shape_set, shape_sets
from shardproof.model_shapes.sizes import Sizes

__all__ = ["ModelParameter", "ShapeSet", "Sizes", "reduced", "shape_set", "shape_sets"]
