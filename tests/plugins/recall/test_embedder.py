"""An embedder's vectors count beside the words, and the suite of embedders bites."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from perpetual import Lab
from perpetual.api import PluginError, Provider, hookimpl
from perpetual.registry import Registry
from perpetual_recall.embedder import Embedder
from perpetual_recall.testing.embedders import EmbedderContract

NAMES = [name for name, _ in inspect.getmembers(EmbedderContract, inspect.isfunction) if name.startswith("test_")]
SEEN: list[list[str]] = []


class Letters(Embedder):
    """Counts letters."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        SEEN.append([*texts])
        return [[1.0, *(float(text.casefold().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz")]
                for text in texts]  # fmt: skip


class Short(Letters):
    """Leaves the empty text out."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return super().embed([text for text in texts if text])


class Moody(Letters):
    """Embeds a text by its place."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[*vector, float(place)] for place, vector in enumerate(super().embed(texts))]


class Flat(Letters):
    """Embeds every text alike."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[1.0, 2.0] for _ in texts]


BROKEN: dict[type[Embedder], set[str]] = {
    Letters: set(),
    Short: {"test_each_text_has_a_vector"},
    Moody: {"test_the_same_text_has_the_same_vector"},
    Flat: {"test_a_text_is_nearest_to_itself"},
}


def holds(name: str, kind: type[Embedder]) -> bool:
    try:
        getattr(EmbedderContract(), name)(kind())
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[Embedder]) -> None:
    assert {name for name in NAMES if not holds(name, kind)} == BROKEN[kind]


def test_every_promise_has_an_embedder_that_breaks_it() -> None:
    assert set().union(*BROKEN.values()) == {*NAMES}


def build(options: object) -> Embedder:
    return Letters()


class Silent(Embedder):
    """Answers no vectors."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return []


def build_silent(options: object) -> Embedder:
    return Silent()


def registry(factory: str) -> Registry:
    made = ModuleType("acme_vectors")
    offer = [Provider(slot="embedder", name="letters", factory=f"{__name__}:{factory}")]
    made.perpetual_embedders = hookimpl(lambda: offer)  # type: ignore[attr-defined]
    return Registry(extra=[("acme", "vectors", "1", lambda: made)])


def test_the_nearer_vector_goes_first(project: Path) -> None:
    with Lab.open(project, registry=registry("build")) as lab:
        lab.memory.write("notes/near.md", "zebra adam mmmm")
        lab.memory.write("notes/far.md", "zebra xyxy qqqq")
        assert [hit.note.path for hit in lab.memory.search("zebra").items] == ["notes/near.md", "notes/far.md"]
        SEEN.clear()
        lab.memory.search("zebra")
        assert SEEN == [["zebra"]], "vectors of notes are kept"
    with Lab.open(project) as plain:
        assert [hit.note.path for hit in plain.memory.search("zebra").items] == ["notes/far.md", "notes/near.md"]


def test_an_embedder_without_vectors_is_named(project: Path) -> None:
    with Lab.open(project, registry=registry("build_silent")) as lab:
        lab.memory.write("notes/near.md", "zebra")
        with pytest.raises(PluginError, match="letters answered no vectors"):
            lab.memory.search("zebra")
