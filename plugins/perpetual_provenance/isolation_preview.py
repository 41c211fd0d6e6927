"""What a copy of the code would hold, for a dry run: names and sizes are read, and nothing is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from perpetual_provenance.git_snapshot import Git, GitFailed, borrowed, look, overrides
from perpetual_provenance.isolation import Copies, refuse_original

if TYPE_CHECKING:
    from perpetual.documents.provenance import CodePreview

__all__ = ["Survey"]

_PIECE = 1 << 20


class Survey(Copies):
    """Gathers as `Copies` does, and stores no content."""

    def stored(self, full: str) -> str:
        """Returns no digest: the content is not read."""
        return ""

    def found(self, argv: Sequence[str]) -> CodePreview:
        """Returns what would be kept; raises UsageError and GitFailed as `keep`."""
        code = self.gathered()
        refuse_original(argv, code)
        commit = code["repositories"][0]["commit"]
        return {
            "commit": commit,
            "diff_bytes": None if commit is None else _diff_bytes(code["top"]),
            "files": len(code["files"]),
            "size_bytes": self.kept_bytes,
            "linked": len(code["linked"]),
        }


def _diff_bytes(top: str) -> int:
    """Returns the size of the patch from the commit to the files that git tracks, in bytes."""
    with TemporaryDirectory(prefix="perpetual-code-") as scratch, Git(Path(scratch)) as git:
        site, config = look(git, top)
        words = ["git", *overrides(config), "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv"]
        process = git.start(words, site.top, borrowed(site, config, git.scratch))
        assert process.stdout is not None
        size = 0
        while piece := os.read(process.stdout.fileno(), _PIECE):
            size += len(piece)
        if process.wait():
            raise GitFailed(git.why(process))
    return size
