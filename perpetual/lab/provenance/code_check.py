"""Approval binds the code: what is to run is compared with what was there when it was approved.

`approve` records the code of each command, as captures read it. At each start it is compared: `ask` starts nothing
until the experiment is approved again, `warn` starts it and says so, `allow` compares nothing. Code that its capture
does not know is not compared. Where the capture is gone or fails, `ask` and `warn` start nothing until a person
approves again. Reading a repository takes time, so nothing here is called inside a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perpetual.errors import NotPermitted, PerpetualError, PluginError, UsageError
from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, ExperimentRow, RunRow
from perpetual.lab.ledger.experiments import argv_of, spec_hash
from perpetual.lab.permissions import for_agent
from perpetual.lab.provenance import isolation
from perpetual.lab.provenance.captures import UNREADABLE, Codes
from perpetual.slots.capture import CodeState

if TYPE_CHECKING:
    from perpetual.documents.provenance import CodeStateDocument
    from perpetual.lab.bodies import ExperimentBody

__all__ = [
    "KIND",
    "Changed",
    "CodeCheck",
    "accepted_of",
    "accepted_values",
    "held_up",
    "is_held",
    "reason_of",
    "require_same",
]

KIND = "code_changed"  # of the annotation, and the error's code
_ACCEPTED, _ACCEPTED_MARK = "code_accepted", "code_accepted_mark"
_LISTED = 5
_FOR_AGENTS = "a person looks at the change and approves it anew; propose more or end your turn"


class Changed(NamedTuple):
    """The code of an experiment is not what was approved."""

    experiment_id: str
    files: tuple[str, ...] | None  # None where they cannot be named
    rule: str  # ask or warn
    now: CodeState
    problem: str | None = None  # why it could not be compared

    @property
    def text(self) -> str:
        """Returns what has changed, for people."""
        if self.problem is not None:
            return f"{self.experiment_id} is approved with its code, which cannot be compared: {self.problem}"
        if not self.files:
            return f"the code of {self.experiment_id} has changed since it was approved"
        more = f" and {len(self.files) - _LISTED} more" if len(self.files) > _LISTED else ""
        named = ", ".join(self.files[:_LISTED])
        return f"the code of {self.experiment_id} has changed since it was approved: {named}{more}"

    @property
    def annotation(self) -> dict[str, str]:
        """Returns the remark on a run that starts all the same."""
        return {"kind": KIND, "text": self.text[:500], "source": "git" if self.now.kind == "git" else "files"}


class CodeCheck:
    """Compares experiments with what was approved; the folder is read once, when it is first needed."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._codes: dict[Path, Codes] = {}
        self._states: dict[str, CodeState | None] = {}
        self._compared: dict[str, CodeState] = {}

    def state_of(self, experiment: ExperimentRow) -> CodeState | None:
        """Returns the code that an experiment would run now; None without a command, or a capture that reads code.

        Raises:
            PluginError: if a capture that reads it failed.
        """
        if experiment.id not in self._states:
            self._states[experiment.id] = self._read(experiment.body)
        return self._states[experiment.id]

    def states_of(self, ids: Iterable[str]) -> dict[str, CodeStateDocument]:
        """Returns what `approve` records of each experiment, by id; unknown code is left out.

        Raises:
            PluginError: if a capture that reads it failed, unless the methodology compares nothing.
        """
        found = {}
        for id in ids:
            document = self._ctx.need(EXPERIMENT, id)
            try:
                state = self.state_of(document)
            except PluginError:
                if self._rule(by_queue=False) != "allow":
                    raise
                continue
            bound = self.bound(document, state)
            if bound is not None:
                found[document.id] = bound
        return found

    def bound(self, experiment: ExperimentRow, state: CodeState | None) -> CodeStateDocument | None:
        """Returns what an approval records: the code, None where it is unknown, and the copy that is kept of it."""
        known = None if state is None or state.sha256 is None else state.document()
        if not experiment.body["resources"].get("isolate") or experiment.body["command"] is None:
            return known
        return {**(known or CodeState().document()), "kept": isolation.keep(self._ctx, experiment.body)}

    def is_other(self, experiment: ExperimentRow) -> bool:
        """Returns whether an approved experiment may be approved anew.

        Its code is other than approved, or was not recorded. The copy of an isolated one may be gone or altered.
        """
        body = experiment.body
        if body["status"] in ("proposed", "rejected", "expired") or body.get("approved_hash") != spec_hash(body):
            return False
        argv, before = self._command_of(body), CodeState.of(body.get("approved_code"))
        if argv is None or body["resources"].get("isolate"):
            return argv is not None
        try:
            if before is None:
                now = self.state_of(experiment)
                return now is not None and now.sha256 is not None
            codes = self._codes_of(body)
            return codes.same(before, codes.now(before, argv, body["cwd"])) is False
        except PluginError:
            return before is not None  # what cannot be compared any more may be approved without it

    def changed(self, experiment: ExperimentRow, *, by_queue: bool, accepted: Sequence[str] = ()) -> Changed | None:
        """Returns how the code differs from what was approved, None where it does not or need not be known.

        Args:
            by_queue: whether the queue or the loop starts it, and not the caller.
            accepted: further states that a person has started it with, by their hashes.
        """
        rule = self._rule(by_queue=by_queue)
        before = CodeState.of(experiment.body.get("approved_code"))
        if rule == "allow" or before is None or (experiment.body["resources"].get("isolate")):
            return None  # an isolated run starts from what was approved
        argv = self._command_of(experiment.body)
        if argv is None:
            return None
        try:
            now = self._now(experiment, before, argv)
            if now.sha256 in accepted or self._codes_of(experiment.body).same(before, now) is not False:
                return None
        except PluginError as problem:
            return Changed(experiment.id, None, "ask", CodeState(), problem.message)
        files = self._codes_of(experiment.body).changed_since(before, now)
        return Changed(experiment.id, None if files is None else tuple(files), rule, now)

    def _codes_of(self, body: ExperimentBody) -> Codes:
        root = isolation.code_root(self._ctx, body)
        if root not in self._codes:
            self._codes[root] = Codes(self._ctx, root)
        return self._codes[root]

    def _now(self, experiment: ExperimentRow, before: CodeState, argv: Sequence[str]) -> CodeState:
        """Returns the code now, as the capture reads it that has read the approved state.

        Read once for all of its runs.
        """
        if experiment.id not in self._compared:
            self._compared[experiment.id] = self._codes_of(experiment.body).now(before, argv, experiment.body["cwd"])
        return self._compared[experiment.id]

    def _command_of(self, body: ExperimentBody) -> Sequence[str] | None:
        """Returns the command's words; None without one, or for adopted work, which does not run here."""
        if body["command"] is None:
            return None
        try:
            return argv_of(body["command"])
        except UsageError:
            return None

    def _read(self, body: ExperimentBody) -> CodeState | None:
        argv = self._command_of(body)
        return None if argv is None else self._codes_of(body).read(argv, body["cwd"])

    def _rule(self, *, by_queue: bool) -> str:
        rule: str | None = self._ctx.config.methodology["code_changes"]
        if rule is not None:
            return rule
        return "ask" if by_queue or for_agent(self._ctx) else "warn"


def require_same(ctx: Context, check: CodeCheck, experiment: ExperimentRow) -> Changed | None:
    """Returns the change that the caller is warned of, None without one.

    Raises:
        NotPermitted: where the methodology wants it approved again.
    """
    found = check.changed(experiment, by_queue=False)
    if found is not None and found.rule == "ask":
        raise _refused(ctx, found)
    return found


def _refused(ctx: Context, found: Changed) -> PerpetualError:
    if found.problem is not None:
        hint = f"perpetual plugins list; without its code: perpetual approve {found.experiment_id}"
        return NotPermitted(found.text, hint=_FOR_AGENTS if for_agent(ctx) else hint, code=UNREADABLE)
    return NotPermitted(found.text, hint=_hint(ctx, found.experiment_id), code=KIND)


def held_up(ctx: Context, run: RunRow) -> PerpetualError:
    """Returns the error for callers that wait for a run that is held."""
    hint = _hint(ctx, run.body["experiment_id"])
    return NotPermitted(f"{run.id} does not start: {run.body['reason']}", hint=hint, code=KIND)


def _hint(ctx: Context, experiment_id: str) -> str:
    return _FOR_AGENTS if for_agent(ctx) else f"look at the change, then: perpetual approve {experiment_id}"


def reason_of(found: Changed) -> str:
    """Returns why a queued run waits."""
    return f"{found.text}; it waits until a person approves it again"


def accepted_of(ctx: Context, run: RunRow) -> Sequence[str]:
    """Returns the other states of the code with which a person has started a run, if that was recorded here."""
    values = run.body.get("code_accepted", ())
    trust = ctx.trust
    return values if trust.vouches(_subject(run), values, run.body.get("code_accepted_mark")) else ()


def accepted_values(ctx: Context, run: RunRow, accepted: Sequence[str]) -> dict[str, object]:
    """Returns the fields of a run that record these states; the queue starts it with them, so they carry a mark."""
    return {_ACCEPTED: [*accepted], _ACCEPTED_MARK: ctx.trust.vouch(_subject(run), accepted)}


def _subject(run: RunRow) -> str:
    return f"{run.id} of {run.body['experiment_id']}"


def is_held(run: RunRow) -> bool:
    """Returns whether a queued run waits for a new approval, and so keeps nothing from other runs."""
    return bool(run.body["status"] == "queued" and run.body.get("code_held"))
