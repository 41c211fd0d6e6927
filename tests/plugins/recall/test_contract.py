"""The bundled retrievers keep the promises of their slot, and so does what `plugins new` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual.registry import Registry
from perpetual_devkit.authoring import new_plugin
from perpetual_recall import linear, recall
from perpetual_recall.retriever import Retriever
from perpetual_recall.testing import RetrieverContract


class TestRecall(RetrieverContract):
    @pytest.fixture
    def retriever(self) -> Retriever:
        return recall.build({})


class TestLinear(RetrieverContract):
    @pytest.fixture
    def retriever(self) -> Retriever:
        return linear.build({})


@pytest.mark.parametrize("slot", ["retriever", pytest.param("embedder", marks=pytest.mark.slow)])
def test_a_new_plugin_passes_its_tests(slot: str, tmp_path: Path) -> None:
    made = new_plugin("titles", slot, tmp_path, slots=Registry().slots)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--import-mode=importlib",
         "--rootdir", made.path, "-c", os.devnull, made.path],
        cwd=made.path, env={**os.environ, "PYTHONPATH": made.path}, capture_output=True, text=True, timeout=110,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
