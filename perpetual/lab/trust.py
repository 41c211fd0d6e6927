"""Trust in a project is the user's: what lies in the folder is data until this user created or accepted it here.

A project with a trust record (`perpetual.toolkit.trust_record`) is `own` or `trusted`; any other one is `held`: it can
be read, and nothing is written, started, signalled, served or approved. An approval counts only if it carries the keyed
hash of this project's record. `perpetual.lab.trust_review` shows and accepts what is held.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from perpetual.config import MARKS
from perpetual.errors import NotPermitted
from perpetual.lab.config import LabConfig
from perpetual.toolkit import confined, trust_record, user_state
from perpetual.toolkit.agents import mark
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.trust_record import Record
from perpetual.toolkit.units import iso

if TYPE_CHECKING:
    from perpetual.lab.bodies import Seal

__all__ = ["VARIABLE", "MARK", "State", "Trust"]

VARIABLE = "PERPETUAL_TRUSTED"

State = Literal["own", "trusted", "held"]
MARK = "approved_mark"
_BOUND = "approved_"  # every field of an experiment that approval writes begins so
_ROLLED_BACK = "its store is older than what was seen here: a backup was put back, or the record was lost"
_UNKNOWN = "it was not created or trusted here"


class Trust:
    """What this user trusts of one project. One instance a `Context`, safe in threads."""

    def __init__(self, config: LabConfig, *, actor: str) -> None:
        self._config, self._actor = config, actor
        self._path = trust_record.path_of(config.root)
        self._stamp = self._seen()
        self._record = trust_record.read(config.root, config.project_id)
        self._lifted = threading.local()
        self._is_rolled_back = False

    def _seen(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    @property
    def record(self) -> Record | None:
        """Returns the record in force; read again once another process has changed it."""
        seen = self._seen()
        if seen != self._stamp:
            self._stamp = seen
            self._record = trust_record.read(self._config.root, self._config.project_id)
        return self._record

    def state(self) -> State:
        """Returns `own`, `trusted` or `held`."""
        found = self.record
        if found is None or self._is_rolled_back:
            return "held"
        return "own" if found.state == "own" else "trusted"

    @property
    def is_held(self) -> bool:
        """Returns whether the project may only be read."""
        return self._is_rolled_back or self.record is None

    @property
    def why(self) -> str | None:
        """Returns why the project is held; None if it is not."""
        if self.record is None:
            return _UNKNOWN
        return _ROLLED_BACK if self._is_rolled_back else None

    def require(self, operation: str) -> None:
        """Raises NotPermitted (not_trusted) if the project is held; `operation` is what was asked for."""
        if self.is_held:
            raise NotPermitted(f"{operation} is held: {self.why}", hint=self.way_out(), code="not_trusted")

    @property
    def for_agent(self) -> bool:
        """Returns whether an agent reads the answer, by its name or by its shell."""
        by_name = self._actor.startswith(("agent:", "mcp:"))
        return by_name or mark(os.environ, self._config[MARKS]) is not None

    def way_out(self) -> str:
        """Returns the hint for a held operation; an agent is not shown the command."""
        if self.for_agent:
            return "a person has to accept this project in a terminal; until then it can be read"
        return "see what would count and accept it: perpetual trust"

    def fence(self) -> None:
        """Raises NotPermitted (not_trusted) where the record of a held project would be written."""
        if self.is_held and not getattr(self._lifted, "depth", 0):
            raise NotPermitted(f"this project is held: {self.why}", hint=self.way_out(), code="not_trusted")

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Lets this thread write the record of a held project: for its upgrade, and for runs that this user holds."""
        self._lifted.depth = getattr(self._lifted, "depth", 0) + 1
        try:
            yield
        finally:
            self._lifted.depth -= 1

    # --- approvals ------------------------------------------------------------------------------------------

    def seal(self, id: str, body: Mapping[str, object]) -> Seal:
        """Returns the field that makes an approval count here: a keyed hash of all that approval wrote.

        Raises:
            NotPermitted: (not_trusted) in a held project.
        """
        self.require(f"approving {id}")
        return {"approved_mark": self._mark(id, body)}

    def counts(self, id: str, body: Mapping[str, object]) -> bool:
        """Returns whether the approval of an experiment was made or accepted here."""
        if self.is_held:
            return False
        import hmac

        given = body.get(MARK)
        return isinstance(given, str) and hmac.compare_digest(given, self._mark(id, body))

    def check(self, id: str, body: Mapping[str, object]) -> None:
        """Raises NotPermitted (not_trusted) unless the approval of an experiment counts here."""
        if not self.counts(id, body):
            self.require(f"running {id}")
            raise NotPermitted(
                f"the approval of {id} was made elsewhere and does not count here",
                hint=self.way_out(),
                code="not_trusted",
            )

    def vouch(self, subject: str, values: Sequence[str]) -> str:
        """Returns the mark of what a person has accepted of a subject; `vouches` knows it again."""
        import hmac

        record = self.record
        assert record is not None, "a held project has no key"
        text = json.dumps(["accepted", subject, record.project_id, [*values]], separators=(",", ":"))
        return hmac.new(bytes.fromhex(record.key), text.encode(), "sha256").hexdigest()

    def vouches(self, subject: str, values: Sequence[str], given: object) -> bool:
        """Returns whether these values were accepted here."""
        import hmac

        return not self.is_held and isinstance(given, str) and hmac.compare_digest(given, self.vouch(subject, values))

    def _mark(self, id: str, body: Mapping[str, object]) -> str:
        import hmac

        record = self.record
        assert record is not None, "a held project has no key"
        bound = {name: value for name, value in body.items() if name.startswith(_BOUND) and name != MARK}
        text = json.dumps([id, record.project_id, bound], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hmac.new(bytes.fromhex(record.key), text.encode(), "sha256").hexdigest()

    # --- the record -----------------------------------------------------------------------------------------

    def see(self, commit: int) -> None:
        """Compares the store's last commit with the highest one seen here: an older store holds the project."""
        found = self.record
        self._is_rolled_back = found is not None and commit < found.commit

    def note(self, commit: int) -> None:
        """Records that the store has come as far as `commit`, after something that a backup must not bring back."""
        found = self.record
        if found is not None and not self._is_rolled_back and commit > found.commit:
            self.change(lambda record: replace(record, commit=max(record.commit, commit)), durable=False)

    def accept(self, values: Mapping[str, object]) -> None:
        """Records values of weakening keys that the user has set or accepted; see `Config.protections`."""
        found = self.record
        if found is not None and any(found.values.get(name, found) != value for name, value in values.items()):
            self.change(lambda record: replace(record, values={**found.values, **values}))

    def change(self, make: Callable[[Record], Record], *, durable: bool = True) -> None:
        """Writes what `make` returns for the record of now; nothing where there is none.

        Raises:
            PerpetualError: (state_not_writable) if the state folder cannot be written.
        """
        with self.alone():
            found = trust_record.read(self._config.root, self._config.project_id)
            if found is not None:
                self.put(make(found), durable=durable)

    def put(self, record: Record, *, durable: bool = True) -> None:
        """Writes the record and puts it in force; called while `alone` is held."""
        trust_record.write(record, durable=durable)
        confined.owners[os.path.abspath(self._config.folder)] = record.owners
        self._record, self._stamp = record, self._seen()

    def alone(self) -> FileLock:
        """Returns the lock under which trust records are changed."""
        return FileLock(user_state.folder() / "trust.lock")

    @contextmanager
    def replaced(self, project_id: str) -> Iterator[None]:
        """Holds while another record is put in the place of this project's: no approval in it was made here.

        The new key is written first: a crash in between leaves the project held, and never with approvals that count.
        """
        before = self.record
        assert before is not None, "a held project takes nothing over"
        key, now = os.urandom(32).hex(), iso(datetime.now(UTC))
        with self.lifted():
            with self.alone():
                self.put(replace(before, project_id=project_id, key=key, commit=0, at=now))
            try:
                yield
            except BaseException:
                with self.alone():
                    self.put(before)
                raise
        self._stamp = (0, 0)  # the project's id has changed: the record is read again
