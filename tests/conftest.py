"""Snapshots as plain text files, one a test, that a person can read and a diff can show.

After a wanted change of the text: `pytest FOLDER --snapshot-update`, then read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation


class TextFile(SingleFileSnapshotExtension):
    """One .txt file in `snapshots/<test file>/` for every named snapshot."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(Path(test_location.filepath).parent / "snapshots" / test_location.basename)


@pytest.fixture
def text_file(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)
