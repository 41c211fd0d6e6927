"""The contract suite of pricers: the promises of `perpetual_recall.price` as tests.

    class TestAcme(PricerContract):
        @pytest.fixture
        def pricer(self):
            return acme.pricer.build({})

        def measure(self, lab):
            ...  # what makes the pricer price `notes/adam.md` and `notes/sgd.md` as they are

The suite makes its own labs. Without `measure` nothing is priced, and only half of the promises is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_recall.price import Price, Pricer

__all__ = ["PricerContract"]

MEASURED, UNMEASURED = ("notes/adam.md", "notes/sgd.md"), "notes/data.md"


class PricerContract:
    """For every pricer; see the module."""

    def measure(self, lab: Lab) -> None:
        """Does what makes the pricer price the notes of `MEASURED`; nothing by default."""

    @pytest.fixture
    def lab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
        """Yields a person's lab with three notes, of which two were measured."""
        for name in ("STATE", "CACHE", "CONFIG"):
            monkeypatch.setenv(f"PERPETUAL_{name}_DIR", str(tmp_path / name.lower()))
        Lab.init(tmp_path / "project", name="contract").close()
        with Lab.open(tmp_path / "project", actor="user:contract") as lab:
            yield self.filled(lab)

    def filled(self, lab: Lab) -> Lab:
        """Returns the lab after three notes were written, and two of them measured."""
        for path in (*MEASURED, UNMEASURED):
            lab.memory.write(path, f"# On {path}\nwarm-up\n")
        self.measure(lab)
        return lab

    def test_what_was_not_measured_has_no_price(self, pricer: Pricer, lab: Lab) -> None:
        """Not even one of 0."""
        assert UNMEASURED not in {path for path, _ in pricer.prices(lab)}

    def test_a_changed_note_has_no_price(self, pricer: Pricer, lab: Lab) -> None:
        """A price is of the version that was measured."""
        lab.memory.write(MEASURED[0], "# Changed\nno warm-up\n")
        assert (MEASURED[0], lab.memory.get(MEASURED[0]).blob) not in pricer.prices(lab)

    def test_a_price_holds_numbers_that_can_be(self, pricer: Pricer, lab: Lab) -> None:
        """An interval within [-1, 1], at least one pair, and tokens above 0."""
        for version, price in pricer.prices(lab).items():
            assert type(price) is Price, version
            assert all(map(isfinite, (price.uplift, price.low, price.high, price.tokens))), version
            assert -1 <= price.low <= price.high <= 1, version
            assert -1 <= price.uplift <= 1, version
            assert price.pairs >= 1, version
            assert price.tokens > 0, version

    def test_it_answers_for_the_notes_that_are_asked_for(self, pricer: Pricer, lab: Lab) -> None:
        """As it does for all of them, and for no other note."""
        whole = pricer.prices(lab)
        for path in (*MEASURED, UNMEASURED, "notes/none.md"):
            assert dict(pricer.prices(lab, [path])) == {key: it for key, it in whole.items() if key[0] == path}

    def test_the_record_is_not_changed(self, pricer: Pricer, lab: Lab) -> None:
        """By asking for prices."""
        before = lab.storage.changes(0)
        pricer.prices(lab)
        assert lab.storage.changes(0) == before

    def test_the_same_record_gives_the_same_prices(self, pricer: Pricer, lab: Lab) -> None:
        """Also when it is asked again."""
        assert dict(pricer.prices(lab)) == dict(pricer.prices(lab))
