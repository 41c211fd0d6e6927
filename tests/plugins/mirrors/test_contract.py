"""The bundled mirrors keep the promises of their slot, with the real libraries."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from perpetual_mirrors.base import Mirror
from perpetual_mirrors.for_mlflow import Mlflow
from perpetual_mirrors.for_tensorboard import TensorBoard
from perpetual_mirrors.for_trackio import Trackio
from perpetual_mirrors.for_wandb import Wandb
from perpetual_mirrors.testing import MirrorContract


class TestTensorBoard(MirrorContract):
    @pytest.fixture
    def mirror(self) -> Mirror:
        return TensorBoard()


@pytest.mark.slow
class TestWandb(MirrorContract):
    @pytest.fixture
    def mirror(self) -> Mirror:
        return Wandb(None)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of MLflow's, which takes it seconds to make."""
    folder = tmp_path_factory.mktemp("mlflow")
    made = Mlflow(None, None)
    made.open(folder)
    assert [*made.keys()] == []
    return folder / "mlflow.db"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # MLflow's use of SQLAlchemy is its own affair
class TestMlflow(MirrorContract):
    @pytest.fixture
    def mirror(self, folder: Path, database: Path) -> Mirror:
        shutil.copy(database, folder)
        return Mlflow(None, None)


@pytest.mark.slow
class TestTrackio(MirrorContract):
    @pytest.fixture
    def mirror(self) -> Mirror:
        """Loaded anew, since trackio takes its folder when it is imported; a process that pushes does so once."""
        for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
            del sys.modules[name]
        return Trackio(None)
