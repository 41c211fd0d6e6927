"""The contract suite of embedders: the promises of `perpetual_recall.embedder` as tests.

class TestAcme(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return acme.embedder.build({})
"""

from __future__ import annotations

from math import isfinite

from perpetual_recall.embedder import Embedder, cosine

__all__ = ["EmbedderContract"]

TEXTS = ["warm-up of adam", "", "ünï ☃\nlines", "word " * 3000]


class EmbedderContract:
    """For every embedder; see the module."""

    def test_each_text_has_a_vector(self, embedder: Embedder) -> None:
        """All of one length, of finite numbers; of no text none."""
        vectors = embedder.embed(TEXTS)
        assert len(vectors) == len(TEXTS)
        assert len({len(vector) for vector in vectors}) == 1
        assert all(isfinite(number) for vector in vectors for number in vector)
        assert len(embedder.embed([])) == 0

    def test_the_same_text_has_the_same_vector(self, embedder: Embedder) -> None:
        """In whatever company it is embedded: vectors of notes are kept."""
        alone = [*embedder.embed(TEXTS[:1])[0]]
        assert [*embedder.embed(TEXTS)[0]] == alone == [*embedder.embed([*TEXTS[1:], TEXTS[0]])[-1]]

    def test_a_text_is_nearest_to_itself(self, embedder: Embedder) -> None:
        """Its vector is not nought, and another text's points elsewhere."""
        one, other = embedder.embed(["warm-up of adam", "a zebra in the zoo"])
        assert cosine(one, one) > 0.999
        assert cosine(one, other) < cosine(one, one)
