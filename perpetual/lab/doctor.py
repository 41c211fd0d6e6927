"""The doctor: what could go wrong with this lab, looked at without changing anything."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perpetual.errors import PerpetualError, masked
from perpetual.lab import lost_store
from perpetual.lab.broken_part import Unbuilt
from perpetual.lab.context import Context
from perpetual.lab.engines.placing import view_of
from perpetual.lab.engines.sight import HOSTILE, aside_folders, sight
from perpetual.lab.kinds import EXPERIMENT
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.trust_questions import held_items
from perpetual.slots.placement import Placement
from perpetual.slots.scheduler import LIVING
from perpetual.toolkit import confined, filesystems, platform
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck
    from perpetual.lab.events import Feed

__all__ = ["Doctor"]

_Finding = tuple[bool | None, str, str | None]
_ASKED = ("gate", "metric_reader", "analyser", "proposer", "report_section")  # slots of which every provider is asked
_STATES = {"own": "your own", "trusted": "trusted here", "held": "held"}
_NAMED = 10  # records of one sentence
_SHOWN = 5  # held things by name


class Doctor:
    """Each check answers `{check, ok, detail, hint}`; `ok` None means that the check does not apply here."""

    def __init__(self, ctx: Context, feed: Feed) -> None:
        self._ctx, self._feed = ctx, feed

    @staticmethod
    def outside(problem: PerpetualError | None = None) -> list[DoctorCheck]:
        """Returns the checks that need no project.

        `problem` is why the project here cannot be opened, if that is so.
        """
        findings = _examined(_import, _platform, _git)
        if problem is not None:
            findings.append({"check": "project", "ok": False, "detail": problem.message, "hint": problem.hint})
        return findings

    def examine(self, brought: Sequence[tuple[int, DoctorCheck]]) -> list[DoctorCheck]:
        """Returns all findings; a check that raises is one, not the end.

        Args:
            brought: the findings of other checks, each with its order; those here have 10 to 75.
        """
        own = {
            10: self._trust, 15: self._plugins, 20: self._slots, 25: self._options, 30: self._kinds,
            35: self._observers, 40: self._store, 55: self._live_runs, 60: self._run_folders, 65: self._gpus,
            75: self._secrets,
        }  # fmt: skip
        found = [(order, item) for order, check in own.items() for item in _examined(check)]
        return self.outside() + [item for _, item in sorted([*found, *brought], key=lambda each: each[0])]

    def _trust(self) -> _Finding:
        """Returns what of the project does not count here."""
        _ = self._ctx.store  # an older store than was seen here holds the project
        trust = self._ctx.trust
        if trust.is_held:
            return False, f"the project is held: {trust.why}", trust.way_out()
        held = [f"{item.kind} {item.subject}" for item in held_items(self._ctx)]
        if held:
            more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
            return False, f"held, so it does not count here: {', '.join(held[:_SHOWN])}{more}", trust.way_out()
        if os.environ.get("PERPETUAL_TRUSTED"):
            return True, f"the project is {_STATES[trust.state()]}; PERPETUAL_TRUSTED is set", None
        return True, f"the project is {_STATES[trust.state()]}", None

    def _plugins(self) -> _Finding:
        plugins = self._ctx.registry.plugins
        bad = [f"{info.qualified_name}: {info.reason}" for info in plugins if info.state == "failed"]
        bad += [one.words for info in plugins if info.state == "loaded" for one in self._ctx.failures.of(info)]
        refused = [
            f"{offer.qualified_name}: {offer.refused}" for info in plugins for offer in info.offers if offer.refused
        ]
        shadowed = [
            f"{offer.name} has its full name only: {offer.provider.name} is Perpetual's own {offer.provider.slot}"
            for info in plugins
            for offer in info.offers
            if offer.name != offer.provider.name
        ]
        if bad or refused:
            return (
                False,
                "; ".join(bad + refused),
                "mend them, then perpetual plugins retry NAME; or perpetual config set plugins.disabled NAME",
            )
        if unmatched := [*self._ctx.registry.unmatched.values()]:
            return None, "; ".join(unmatched), "see plugins.disabled in config.yaml, --without and PERPETUAL_WITHOUT"
        detail = f"{counted(sum(info.state == 'loaded' for info in plugins), 'plugin')} loaded"
        old = [f"{info.qualified_name}: {words}" for info in plugins for words in info.deprecations]
        return True, "; ".join([detail, *shadowed, *old]), None

    def _slots(self) -> _Finding:
        registry = self._ctx.registry
        for slot in registry.slots.values():
            if slot.selection == "one":
                registry.load(registry.choose(slot.name, self._ctx.config.chosen(slot)))
        required = self._ctx.config.methodology["required_gates"]
        missing = [name for name in required if not self._ctx.registry.serves("gate", name)]
        if missing:
            return False, f"required gates are missing: {', '.join(missing)}", "no note can be written without them"
        unbuilt = [part.why for slot in _ASKED for _, part in self._ctx.parts(slot) if isinstance(part, Unbuilt)]
        if unbuilt:
            return False, "; ".join(unbuilt), "the other parts serve; mend or disable the plugins named"
        return True, "every part that the configuration names is there", None

    def _options(self) -> _Finding:
        """Returns what config.yaml says of plugins' options that cannot be used, or that nothing reads."""
        from perpetual.lab.options.edit import problems

        found = problems(self._ctx.options)
        dead = self._ctx.config.methodology.dead()
        if dead and not found:
            return (
                None,
                f"methodology.yaml: no active plugin brings {', '.join(dead)}",
                (f"perpetual methodology unset {dead[0]}"),
            )
        harmful = [each for each in found if each.harms]
        if found:
            shown = harmful or found
            more = [*harmful, *(each for each in found if not each.harms)]
            hint = next((each.hint for each in shown if each.hint), None)
            return (False if harmful else None), "; ".join(each.message for each in more), hint
        return True, "every option in config.yaml and methodology.yaml is known", None

    def _kinds(self) -> _Finding:
        """Records of kinds whose plugin is gone: they are read and exported, and cannot be written."""
        store = self._ctx.store
        kinds = sorted(self._ctx.kinds.items())
        gone = [
            f"{name} ({counted(count, 'record')}) can be read only: {known.refused}"
            for name, known in kinds
            if known.refused is not None and (count := store.count(name))
        ]
        if gone:
            return None, "; ".join(gone), "install or enable the plugin to write them; store export takes them along"
        words = counted(len(kinds), "kind of record", "kinds of record")
        return True, f"{words} from plugins" if kinds else "no plugin brings records of its own (optional)", None

    def _observers(self) -> _Finding:
        failing = self._feed.failing()
        if failing:
            failures = "; ".join(f"{name}: {error}" for name, error in failing.items())
            return False, f"did not take what the feed offered: {failures}", "perpetual scan offers it again"
        count = len(self._ctx.registry.implementers("perpetual_event"))
        words = f"{counted(count, 'plugin')} notified of events"
        return True, words if count else "no plugin is notified of events (optional)", None

    def _secrets(self) -> _Finding:
        found = []
        for experiment in self._ctx.store.find(EXPERIMENT):
            fields = self._ctx.redaction.old_secrets(experiment.body)
            if fields:
                found.append(f"{experiment.id} ({', '.join(fields)})")
        if not found:
            return True, "no experiment holds a secret", None
        shown = ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
        return (
            False,
            f"older specifications hold secrets: {shown}",
            "change those passwords and keys where they are made",
        )

    def _store(self) -> _Finding:
        store, folder = self._ctx.store, self._ctx.folder
        left = self._ctx.lost()
        if left is not None:
            lost = lost_store.refusal(folder, left)
            return False, lost.message, lost.hint
        count = sum(store.count(kind) for kind in store.kinds)
        detail = f"{counted(count, 'record')}, commit {store.seq()}"
        found = store.describe()
        if found.get("mode"):
            detail += f", {found['mode']} mode" + (f": {found['why']}" if found.get("why") else "")
        kind = filesystems.file_system(folder)
        if kind is not None and filesystems.is_network(kind):
            return (
                None,
                f"{detail}; {folder} is on {kind}, whose locks are a server's promise",
                "keep the project on a local disk, or let one machine alone write it",
            )
        if filesystems.is_case_insensitive(folder):
            return (
                None,
                f"{detail}; {folder} does not tell capital letters from small ones",
                "two notes whose names differ in that alone would be one file: choose names that differ in more",
            )
        most = store.capabilities.most_records
        if most is not None and count > most:
            name = self._ctx.config["store"].rpartition("/")[2]
            return None, f"{detail}; {name} is made for some {most:,}", "perpetual store migrate sqlite"
        return True, detail, None

    def _live_runs(self) -> _Finding:
        live = [run for run in RunRecords(self._ctx).live() if run.body["status"] != "queued"]
        odd, unseen, elsewhere = [], [], []
        for run in live:
            try:
                seen = sight(self._ctx, run)
            except (PerpetualError, *HOSTILE) as problem:
                unseen.append(f"{run.id}: {problem}")
                continue
            if seen.state not in LIVING:
                odd.append(run.id)
            if seen.elsewhere is not None:
                elsewhere.append(f"{run.id} {seen.elsewhere}")
        if unseen:
            return False, "; ".join(unseen), "perpetual scan names what is wrong; perpetual kill RUN gives it up"
        if odd:
            return False, f"{', '.join(odd)} ended and is not recorded yet", "perpetual scan"
        return (
            True,
            "; ".join([f"{counted(len(live), 'run')} live, each found" if live else "no run is live", *elsewhere]),
            None,
        )

    def _run_folders(self) -> _Finding:
        aside = aside_folders(self._ctx)
        if aside:
            hint = f"look into them below {self._ctx.folder / 'runs'}, then remove them"
            return False, f"set aside as of another record: {', '.join(aside)}", hint
        return True, "every run folder is this record's", None

    def _gpus(self) -> _Finding:
        chosen: Placement = self._ctx.part("placement")
        found = chosen.examine(view_of(self._ctx))
        return found.ok, found.detail, found.hint


def _examined(*checks: Callable[[], _Finding]) -> list[DoctorCheck]:
    """Returns what each check finds; one that raises is a finding, not the end."""
    findings: list[DoctorCheck] = []
    for check in checks:
        try:
            ok, detail, hint = check()
        except PerpetualError as problem:
            ok, detail, hint = False, problem.message, problem.hint
        except OSError as problem:
            known = confined.explain(problem)
            ok, detail, hint = False, str(known or problem), known.hint if known else None
        except Exception as problem:  # noqa: BLE001 - it is shown, and the other checks go on
            ok, detail, hint = False, f"this check failed: {type(problem).__name__}: {problem}", None
        findings.append({"check": check.__name__.strip("_"), "ok": ok, "detail": masked(detail), "hint": hint})
    return findings


def _import() -> _Finding:
    """Returns two other distributions ship an import package of the same name."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        ours = version("perpetual-lab")
    except PackageNotFoundError:
        return False, "perpetual-lab is not installed; this import comes from a folder", "pip install perpetual-lab"
    strangers = sorted(name for name in _owners_of("perpetual") if name != "perpetual-lab")
    if strangers:
        return (
            False,
            f"{', '.join(strangers)} also installs a package called perpetual",
            "use an environment of its own",
        )
    return True, f"perpetual-lab {ours}", None


def _owners_of(package: str) -> set[str]:
    """Returns the distributions that install the import package, by their own lists.

    `packages_distributions` answers it for every package there is, and reads each path of each list for that: a second
    in an environment of a hundred distributions.
    """
    from importlib.metadata import distributions

    line = re.compile(rf'^"?{re.escape(package)}(?:/|\.py[",\n])', re.MULTILINE)
    owners = set()
    for found in distributions():
        names = found.read_text("top_level.txt")
        listing = "" if names else found.read_text("RECORD") or found.read_text("SOURCES.txt") or ""
        if package in (names or "").split() or line.search(listing):
            owners.add(str(found.metadata["Name"]))
    return owners


def _platform() -> _Finding:
    reason = platform.supports_runs()
    if reason is not None:
        return False, reason, "runs need Linux or macOS"
    return True, f"runs can be supervised; SQLite {sqlite3.sqlite_version}", None


def _git() -> _Finding:
    found = shutil.which("git")
    if found is None:
        return None, "no git program (optional): runs do not record the code's commit", "install git"
    return True, found, None
