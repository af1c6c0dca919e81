"""The modules that FSDP1 wraps: a unit for every parameter, inside a root that has no parameter of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

Term = Callable[[str, Any], torch.Tensor]


class Unit(nn.Module):
    """One parameter, under every name that it goes by."""

    def __init__(self) -> None:
        """Without a name yet."""
        super().__init__()
        self.names: dict[str, str] = {}

    def add(self, id: str, parameter: nn.Parameter) -> None:
        """One more name, and the parameter under it."""
        self.names[id] = f"p{len(self.names)}"  # a name may not have dots, an id may
        self.register_parameter(self.names[id], parameter)

    def value(self, id: str) -> Any:
        """A parameter or a view of the flat one, as FSDP1 has it now."""
        return getattr(self, self.names[id])

    def forward(self, ids: Sequence[str], each: Term) -> torch.Tensor:
        """A loss with one term a name."""
        return torch.stack([each(id, self.value(id)) for id in ids if id in self.names]).sum()


class Root(nn.Module):
    """All units."""

    def __init__(self, units: Sequence[nn.Module]) -> None:
        """Over these units, each wrapped already."""
        super().__init__()
        self.units = nn.ModuleList(units)

    def forward(self, units: Sequence[Any], ids: Sequence[str], each: Term) -> torch.Tensor:
        """The sum of the losses of these units."""
        return torch.stack([unit(ids, each).to(torch.float64) for unit in units]).sum()
