"""What an implementation is known to do otherwise, and on purpose: one TOML file an implementation.

    [[deviation]]
    law = "round-trip"
    condition = "ndim == 0 and world_size > 1"       # see `condition`
    reason = "a scalar is refused: it has no dimension to chunk"
    link = "https://…"
    device = "cpu"                                     # optional: only there
    torch = "<2.13"                                    # optional: only with these versions
    [deviation.case]                                   # the pinned case, as in a case file
    version = 1
    groups = [{name = "main", ranks = [0, 1]}]
    parameters = [{id = "p0", shape = []}]
    program = [{kind = "register"}, {kind = "gather"}]

The pinned case runs every time. An entry whose case no longer breaks the law fails the run, so that the file never says
more than is true. Other cases that match law and condition are counted and do not stop the search.
"""

from shardproof.deviations.condition import NAMES, Condition
from shardproof.deviations.files import Deviation, excused_by, known_deviations, read_deviations

__all__ = ["NAMES", "Condition", "Deviation", "excused_by", "known_deviations", "read_deviations"]
