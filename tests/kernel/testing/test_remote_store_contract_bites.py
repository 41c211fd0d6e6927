"""The suite of stores on a server bites: each broken twin of the fixture `acme-vault` fails the test of its promise."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from perpetual.slots.store import StoreBase
from perpetual.testing.stores import RemoteStoreContract, SharedStoreContract, StoreContract
from perpetual.testing.stores.processes import Peer

VAULT = Path(__file__).parents[2] / "fixtures" / "third_party" / "acme-vault"
OPTIONS = {"address": "vault://lab:hunter2-hunter2@/srv"}

BROKEN = [
    ("shows_the_password", "test_it_names_its_place_and_no_password"),
    ("shows_it_otherwise", "test_it_names_its_place_and_no_password"),
    ("has_no_place", "test_it_names_its_place_and_no_password"),
    ("weighs_nothing", "test_it_says_how_much_it_takes"),
    ("named_by_its_folder", "test_a_folder_that_is_renamed_takes_its_record_along"),
    ("one_for_all", "test_each_folder_has_a_record_of_its_own"),
    ("named_by_its_folder", "test_each_folder_has_a_record_of_its_own"),
    ("head_of_the_session", "test_the_head_differs_with_each_commit_and_each_record"),
    ("head_is_a_number", "test_the_head_differs_with_each_commit_and_each_record"),
    ("keeps_the_mark", "test_a_replaced_record_says_so_to_every_writer"),
    ("never_comes_back", "test_a_replaced_record_says_so_to_every_writer"),
    ("marks_a_commit", "test_the_mark_changes_no_row"),
]


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixture's distribution and its twins, here and in processes that are started."""
    monkeypatch.syspath_prepend(VAULT)
    monkeypatch.setenv("PYTHONPATH", str(VAULT))


def _promises() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(RemoteStoreContract).items() if name.startswith("test_")}


def _run(name: str, twin: str, tmp_path: Path) -> None:
    factory = f"broken_vaults:{twin}"
    build = getattr(import_module("broken_vaults"), twin)
    suite = type("Suite", (RemoteStoreContract,), {"factory": factory, "options": OPTIONS})()
    test = getattr(suite, name)
    with ExitStack() as stack:

        def at(path: Path) -> StoreBase:
            store: StoreBase = build(OPTIONS, path=path)
            stack.callback(store.close)
            return store

        wanted: dict[str, Any] = {"tmp_path": tmp_path, "at": at, "store": at(tmp_path / "store")}
        if "peer" in inspect.signature(test).parameters:
            wanted["peer"] = Peer(factory, OPTIONS, tmp_path / "store")
            stack.callback(wanted["peer"].end)
        test(**{key: value for key, value in wanted.items() if key in inspect.signature(test).parameters})


def test_there_is_a_broken_twin_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == set(_promises())


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("name", _promises())
def test_a_sound_remote_store_passes(name: str, tmp_path: Path) -> None:
    _run(name, "whole", tmp_path)


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(("twin", "name"), BROKEN)
def test_a_broken_remote_store_fails(twin: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        _run(name, twin, tmp_path)


@pytest.mark.usefixtures("importable")
def test_the_suite_is_chosen_by_what_the_store_says(tmp_path: Path) -> None:
    """A provider whose store names a place is held to it."""
    assert StoreContract.for_provider("broken_vaults:whole", OPTIONS) is RemoteStoreContract
    assert (
        StoreContract.for_provider("perpetual_sqlite.store:open_store", {"lock_timeout_s": 1.0}) is SharedStoreContract
    )
