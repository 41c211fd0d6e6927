"""The index of a snapshot: derived, built anew where it is bad, and compared with the rows by verify."""

from __future__ import annotations

import json
import sys
from array import array
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from perpetual_tinydb import snapshot as snapshot_module
from perpetual_tinydb.journal_format import seal
from perpetual_tinydb.store import TinyStore
from tests.plugins.tinydb.helpers import append, fill, fresh, ns, state


def _opens_as_before(folder: Path, before: dict[str, Any]) -> None:
    seen = fresh(folder)
    assert state(seen) == before
    (problem,) = seen.verify()
    assert "snapshot-2.index is missing or damaged" in problem


def test_an_index_is_built_anew_where_it_is_bad(folder: Path, store: TinyStore) -> None:
    """Missing, of nothing, of something else, cut short, or with a flipped bit in any of its bytes."""
    fill(store)
    store.compact()
    append(store, 8)
    before = state(store)
    path = folder / "snapshot-2.index"
    good = path.read_bytes()
    path.unlink()
    _opens_as_before(folder, before)
    for bad in (b"", b"\n", b"garbage", b"[]\n", b"\x00" * 5000, good[:-1], good[: len(good) // 2], good + b"\x00"):
        path.write_bytes(bad)
        _opens_as_before(folder, before)
    for position in range(0, len(good), 13):
        path.write_bytes(good[:position] + bytes([good[position] ^ (1 << position % 8)]) + good[position + 1 :])
        seen = fresh(folder)
        assert state(seen) == before, position
    assert (folder / "snapshot-2.index").read_bytes() != good, "it is mended by a compaction, not by reading"
    writer = fresh(folder)
    writer.compact()
    assert (state(writer), writer.verify()) == (before, [])


def test_the_index_of_another_machine_is_built_anew(folder: Path, store: TinyStore) -> None:
    """Its integers stand the other way round."""
    fill(store)
    store.compact()
    before = state(store)
    path = folder / "snapshot-2.index"
    head, _, data = path.read_bytes().partition(b"\n")
    table = json.loads(head)
    other = "big" if sys.byteorder == "little" else "little"
    assert table["byteorder"] != other
    swapped = bytearray(data)
    kinds = [*table["kinds"].values()]
    of_fields = [places[name] for kind in kinds for places in kind["fields"].values() for name in ("ends", "numbers")]
    for start, length in [
        *table["feed"],
        *(kind[name] for kind in kinds for name in ("numbers", "offsets", "lengths")),
        *of_fields,
    ]:
        column = array("q", data[start : start + length])
        column.byteswap()
        swapped[start : start + length] = column.tobytes()
    table |= {"byteorder": other, "sum": crc32(swapped)}
    del table["c"]
    path.write_bytes(seal(json.dumps(table)[:-1]) + swapped)
    _opens_as_before(folder, before)
    writer = fresh(folder)
    writer.compact()
    assert (state(writer), writer.verify()) == (before, [])


def test_the_index_of_another_snapshot_is_built_anew(folder: Path, store: TinyStore) -> None:
    """Put there by hand: a sound index, of other rows."""
    fill(store)
    store.compact()
    index = (folder / "snapshot-2.index").read_bytes()
    append(store, 8)
    store.compact()
    (folder / "snapshot-3.index").write_bytes(index)
    seen = fresh(folder)
    assert ns(seen) == [*range(1, 9)]
    assert state(seen) == state(store)
    (problem,) = seen.verify()
    assert "snapshot-3.index" in problem


def test_an_index_that_misses_a_row_is_found_by_verify(
    folder: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a defect in the program that wrote it: its checksums are right."""
    fill(store)
    real = snapshot_module.Columns.add

    def forgets_row(self: Any, row: dict[str, Any], offset: int, length: int) -> None:
        if row["_id"] != "h3":
            real(self, row, offset, length)

    def forgets_field(self: Any, row: dict[str, Any], offset: int, length: int) -> None:
        real(self, {**row, "status": "lost"} if row["_id"] == "h3" else row, offset, length)

    for defect, expected in (
        (forgets_field, "the index of status misses hypothesis h3"),
        (forgets_row, "the index misses hypothesis h3"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(snapshot_module.Columns, "add", defect)
            store.compact()
        problems = fresh(folder).verify()
        assert any(expected in problem for problem in problems), problems


def test_only_the_very_id_is_found_after_a_compaction(store: TinyStore) -> None:
    with store.transaction() as tx:
        for n in range(1, 13):
            tx.create("hypothesis", {"n": n})
            tx.append("event", {"n": n})
            tx.put("setting", f"name {n}", {"n": n})
            tx.put("fold", f"x{13 - n}", {"n": n})  # looks regular and is not
    store.compact()
    for n in range(1, 13):
        for kind, id in (("hypothesis", f"h{n}"), ("event", f"{n}"), ("setting", f"name {n}"), ("fold", f"x{13 - n}")):
            found = store.get(kind, id)
            assert found is not None, (kind, id)
            assert (found.id, found.body["n"]) == (id, n)
    for kind, id in [("hypothesis", "h0"), ("hypothesis", "h13"), ("hypothesis", "h01"), ("hypothesis", "1"),
                     ("hypothesis", "h"), ("hypothesis", "h\u0661"), ("hypothesis", "h-1"), ("hypothesis", "H1"),
                     ("hypothesis", "h" + "9" * 40), ("event", "01"), ("event", ""), ("setting", "1")]:  # fmt: skip
        assert store.get(kind, id) is None, (kind, id)
    assert [change.id for change in store.changes(0) if change.kind == "fold"] == sorted(f"x{n}" for n in range(1, 13))
