"""Clone of the memory for a person: a working tree whose origin is the bare repository. Needs no git program."""

from __future__ import annotations

import os
import shutil
import tempfile
from io import BytesIO
from pathlib import Path

from perpetual.api import Conflict, CorruptData

__all__ = ["clone"]


def clone(memory: Path, folder: Path) -> None:
    """Clones `main` of the bare repository `memory` to `folder`, made beside it and put there in one step.

    No user's git configuration is read and no hook runs.

    Raises:
        Conflict: `folder` exists and is not empty.
        CorruptData: the repository cannot be read.
        OSError: the folder cannot be made.
    """
    from dulwich.config import StackedConfig
    from dulwich.errors import FileFormatException, NotGitRepository
    from dulwich.porcelain import Error, clone

    if os.path.lexists(folder) and not (folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())):
        raise Conflict(f"{folder} exists and is no empty folder", hint="name a folder that does not exist yet")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name[:100]}.", dir=folder.parent))
    try:
        try:
            made = clone(
                os.fspath(memory.resolve()), draft, branch="main", checkout=True, errstream=BytesIO(),
                config=StackedConfig([]),
            )  # fmt: skip
        except (Error, FileFormatException, NotGitRepository, KeyError, ValueError, AssertionError) as problem:
            raise CorruptData(f"{memory} cannot be cloned: {problem}", hint="git fsck says more") from problem
        made.close()
        os.rename(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
