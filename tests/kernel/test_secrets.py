"""No secret reaches the record, whichever way it comes in; a run gets its secrets from its launcher's environment."""

from __future__ import annotations

import json
import random
import re
import string
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import GateVerdict, Provider, hookimpl
from perpetual.errors import NotPermitted, PluginError, UsageError
from perpetual.lab.kinds import EXPERIMENT, RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.redaction import CHECKED, Redaction, only_removes
from perpetual.registry import Registry
from perpetual.slots.redactor import MASK, Redactor, Span

Campaign = Callable[..., Any]


def _drawn(number: int, length: int = 36) -> str:
    return "".join(random.Random(number).choices(string.ascii_letters + string.digits, k=length))


def _token(number: int) -> str:
    return "ghp_" + _drawn(number)


def _files_with(folder: Path, secret: str, *, but: tuple[str, ...] = ()) -> list[str]:
    """The files below a folder that hold the secret, beside those that runs write themselves."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name not in but and secret.encode() in path.read_bytes():
            found.append(path.relative_to(folder).as_posix())
    return found


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"command": "train.py --api-key hunter2"}, "the command"),
        ({"command": f"sh -c 'TOKEN={_token(1)} ./x'"}, "the command"),
        ({"command": "curl -H 'Authorization: Bearer abc.DEF-123' u"}, "the command"),
        ({"command": "x", "env": {"WANDB_API_KEY": "hunter2"}}, "WANDB_API_KEY"),
        ({"command": "x", "env": {"NOTE": _token(2)}}, "NOTE"),
        ({"command": "x", "config": {"db": {"password": "hunter2"}}}, "config.db.password"),
        ({"command": "x", "config": {"list": [1, {"n": f"a {_token(3)}"}]}}, "config.list[1].n"),
    ],
)
def test_a_specification_that_holds_a_secret_is_refused(lab: Lab, given: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError) as refused:
        lab.experiments.propose(**given)
    assert refused.value.code == "secret_in_specification"
    assert named in refused.value.message
    told = refused.value.message + str(refused.value.hint)
    assert "hunter2" not in told
    assert "ghp_" not in told
    assert lab.experiments.list().items == ()
    assert not _files_with(lab.root / ".perpetual", "hunter2")


def test_a_typed_command_is_refused_too(lab: Lab) -> None:
    made = lab.experiments.propose(title="later")
    with pytest.raises(UsageError, match="the command holds a secret"):
        lab.runs.launch(made.id, command="train.py --password hunter2x")
    assert lab.experiments.get(made.id).command is None


def test_texts_of_the_record_lose_their_secrets(lab: Lab) -> None:
    secrets = [_token(number) for number in range(10, 22)]
    given = iter(secrets)
    hypothesis = lab.hypotheses.add(
        f"claim {next(given)}", params={"lr": [next(given)]}, tags=[next(given)],
        metric="acc", direction="max", mde=0.1, baseline=1.0,
    )  # fmt: skip
    lab.hypotheses.update(hypothesis.id, statement=f"again {next(given)}")
    lab.evidence.add(hypothesis.id, verdict="inconclusive", strength=0.5, why=f"because {next(given)}")
    made = lab.experiments.propose(
        hypothesis.id, command="true", title=f"t {next(given)}", notes=f"n {next(given)}", tags=[next(given)]
    )
    lab.experiments.reject(made.id, f"no {next(given)}")
    lab.memory.write("a.md", f"the key is {next(given)}, and\nit works", type="note", message=f"m {next(given)}")
    with pytest.raises(UsageError):
        lab.experiments.propose(command="true", idempotency_key=next(given))
    with pytest.raises(Exception, match="path"):
        lab.memory.write(f"{secrets[0]}.md", "text", type="note")
    lab.scan()
    for secret in secrets:
        assert not _files_with(lab.root / ".perpetual", secret), secret
    assert MASK in lab.hypotheses.get(hypothesis.id).statement
    notes = subprocess.run(["git", "log", "-p", "--all"], cwd=lab.root / ".perpetual" / "memory.git",
                           capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert "it works" in notes
    assert not [secret for secret in secrets if secret in notes]


def test_output_of_a_run_loses_its_secrets(lab: Lab, campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    line, key, late = _token(30), _drawn(31, 64), _token(32)
    pem = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{key}\n{key[:20]}\n-----END OPENSSH PRIVATE KEY-----"
    code = f"print('CUDA out of memory {line}'); print('''{pem}'''); print('end {late}'); raise SystemExit(3)"
    (lab.root / "train.py").write_text(code)
    _, experiment = campaign(f"{sys.executable} train.py", replicates=1)
    run = lab.runs.launch(experiment.id)[0]
    lab.wait([run.id], timeout_s=60)
    lab.scan()
    lab.loop.analyse()
    for secret in (line, key, late):
        assert not _files_with(lab.root / ".perpetual", secret, but=("stdout.log",))
        assert secret not in lab.runs.logs(run.id)["text"]
        assert secret not in lab.runs.logs(run.id, tail=3)["text"]
        assert secret not in "".join(lab.runs.stream(run.id))
        assert secret not in "".join(lab.runs.stream(run.id, tail=3))
        assert secret in "".join(lab.runs.stream(run.id, raw=True))
    assert any("CUDA out of memory" in item["text"] for item in lab.runs.get(run.id).annotations)


def test_an_agent_reads_no_raw_log(lab: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    _, experiment = campaign("echo x", replicates=1)
    run = lab.runs.launch(experiment.id)[0]
    lab.wait([run.id], timeout_s=60)
    monkeypatch.setenv("CLAUDECODE", "1")
    with pytest.raises(NotPermitted):
        lab.runs.logs(run.id, raw=True)
    with pytest.raises(NotPermitted):
        lab.runs.stream(run.id, raw=True)


def test_a_record_that_holds_secrets_is_shown_without_them(lab: Lab) -> None:
    made = lab.experiments.propose(command="true", config={"a": 1})
    store = lab.context.store
    with store.transaction() as tx:
        body = lab.context.need(EXPERIMENT, made.id).body
        del body["checked_for_secrets"]
        body |= {"command": "x --api-key hunter2", "env": {"A_TOKEN": "s3cr3t"}, "config": {"password": "hunter3"}}
        tx.put("experiment", made.id, body)
    shown = lab.experiments.get(made.id)
    assert (shown.command, shown.env, shown.config) == (f"x --api-key {MASK}", {"A_TOKEN": MASK}, {"password": MASK})
    assert lab.experiments.list().items == (shown,)
    kept = lab.context.need(EXPERIMENT, made.id).body
    assert kept["command"] == "x --api-key hunter2"  # what approval bound
    assert lab.context.redaction.old_secrets(kept) == ["command", "env", "config"]


def _unmark(lab: Lab, *ids: str) -> None:
    """Makes the documents like those of a version that did not check them."""
    with lab.context.store.transaction() as tx:
        for id in ids:
            kind = {"h": "hypothesis", "e": "experiment", "r": "run"}[id[0]]
            tx.put(kind, id, {k: v for k, v in lab.context.need(kind, id).body.items() if k != CHECKED})


@pytest.mark.slow
def test_an_older_record_shows_its_secrets_nowhere(
    lab: Lab, campaign: Campaign, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is filled as earlier versions did, past the check; then every face is asked."""
    from perpetual.cli.app import run as command_line
    from perpetual_mcp import read_tools
    from perpetual_report import document

    secrets = [_token(number) for number in range(60, 68)]
    s = iter(secrets)
    with monkeypatch.context() as before:
        before.setattr(lab.context.store, "clean", None)
        before.setattr(Redaction, "refuse_secrets", lambda *given, **named: None)
        hypothesis = lab.hypotheses.add(f"claim {next(s)}", metric="acc", direction="max", mde=0.1, baseline=1.0)
        made = lab.experiments.propose(
            hypothesis.id, command=f"sh -c 'echo out {next(s)}; exit 3'", env={"NOTE": next(s)}, config={"k": next(s)},
            notes=next(s), title=f"t {next(s)}", noise=0.1, wall_s=60.0,
        )  # fmt: skip
        lab.experiments.approve(made.id)
        _unmark(lab, made.id)
        run = lab.runs.launch(made.id)[0]
        assert lab.wait([run.id], timeout_s=60.0)
        lab.evidence.add(hypothesis.id, verdict="inconclusive", strength=0.5, why=f"because {next(s)}")
        with lab.context.store.transaction() as tx:
            RunRecords(lab.context).change(tx, lab.context.need(RUN, run.id), {"reason": f"it said {next(s)}"})
        _unmark(lab, made.id, hypothesis.id, run.id)
    shown = [document.render(lab), document.render_html(lab)]
    asked = [
        *(read_tools.perpetual_experiments(lab, id) for id in (made.id, None)),
        *(read_tools.perpetual_runs(lab, id) for id in (run.id, None)),
        *(ask(lab) for ask in (read_tools.perpetual_status, read_tools.perpetual_brief, read_tools.perpetual_budget)),
        read_tools.perpetual_logs(lab, run.id),
    ]
    shown += [answer.text + json.dumps(answer.document) for answer in asked]
    lab.close()
    monkeypatch.chdir(lab.root)
    lines = f"""status; brief; experiments; experiments {made.id}; runs; runs {run.id}; events; hypotheses list; queue
        hypotheses show {hypothesis.id}; budget; evidence list; logs {run.id}
        runs {run.id} --provenance; compare {made.id}"""
    for words in [line.split() for line in lines.replace("\n", ";").split(";")]:
        for form in ([], ["--json"]):
            command_line([*words, *form])
            shown.append(f"{words}: " + capsys.readouterr().out)
    assert [f"{secrets.index(secret)} in {text[:50]}" for secret in secrets for text in shown if secret in text] == []
    assert sum(MASK in text or "&lt;redacted" in text for text in shown) > 15
    folder = lab.root / ".perpetual" / "runs" / run.id
    assert not [secret for secret in secrets if _files_with(folder, secret, but=("stdout.log", "config.json"))]


# --- the redactor ----------------------------------------------------------------------------------------------------


def test_nothing_is_recorded_without_a_redactor(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up helps")
        lab.settings.set_config("plugins.disabled", "redaction")
    with Lab.open(project) as lab:
        last = lab.feed.last()
        deeds: list[Callable[[], object]] = [
            lambda: lab.hypotheses.add("another"),
            lab.status,
            lab.events,
            lambda: lab.experiments.propose(command="true"),
        ]
        for deed in deeds:
            with pytest.raises(PluginError, match="no redactor is in force") as refused:
                deed()
            assert "plugins.disabled names it" in str(refused.value.hint)
        with pytest.raises(PluginError, match="'immune' is required and is not active"):  # it needs the same rules
            lab.memory.write("a.md", "text")
        assert lab.feed.last() == last
        lab.settings.set_config("plugins.disabled", "")
    with Lab.open(project) as lab:
        assert lab.hypotheses.get("h1").statement == "warm-up helps"


class Shouting(Redactor):
    """Finds one word, and nothing else."""

    def find(self, text: str) -> list[Span]:
        return [match.span() for match in re.finditer("SWORDFISH", text)]

    def words(self, words: Sequence[str]) -> list[str]:
        return [self.text(word) for word in words]

    def is_secret_name(self, name: str) -> bool:
        return False

    def is_secret(self, name: str, value: str, *, is_variable: bool = False) -> bool:
        return False


def shouting(options: Mapping[str, Any]) -> Shouting:
    return Shouting()


def test_the_redactor_that_is_chosen_is_asked_everywhere(project: Path) -> None:
    def offer() -> list[Provider]:
        return [Provider("redactor", "shouting", f"{__name__}:shouting", "one word")]

    plugin = ModuleType("outside")
    plugin.perpetual_redactors = hookimpl(offer)  # type: ignore[attr-defined]
    registry = Registry(extra=[("acme", "outside", "1.0", lambda: plugin)])
    with Lab.open(project, registry=registry) as lab:
        lab.settings.set_config("redactor", "shouting")
        made = lab.hypotheses.add("claim SWORDFISH", tags=["SWORDFISH"])
        assert (made.statement, made.tags) == (f"claim {MASK}", (MASK,))
        with pytest.raises(UsageError, match="the command holds a secret"):
            lab.experiments.propose(command="echo SWORDFISH")
        trial = lab.experiments.propose(command="sh -c 'echo a SWORD$F >&2; exit 3'", env={"F": "FISH"})
        lab.experiments.approve(trial.id)
        (run,) = lab.runs.launch(trial.id)
        lab.wait([run.id], timeout_s=60)
        assert lab.runs.logs(run.id, stderr=True)["text"] == f"a {MASK}\n"
        (cause,) = (one for one in lab.runs.get(run.id).annotations if one["kind"] == "error")
        assert cause["text"] == f"a {MASK}"


# --- gates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown", "holds"),
    [("a b c", "a b c", True), ("a b c", "a [redacted] c", True), ("a b c", "[redacted:x]", True),
     ("a b c", "a <redacted> c", True), ("a b c", "ignore all rules", False), ("a b c", "a [redacted] d", False),
     ("a b c", "x [redacted] c", False), ("ab", "ab[redacted]ab", False), ("a b c", "a c", False)],
)  # fmt: skip
def test_a_redaction_only_removes(text: str, shown: str, holds: bool) -> None:
    assert only_removes(text, shown) is holds


def test_a_gate_that_writes_its_own_words_counts_as_failed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    gates = lab.context.parts("gate")
    monkeypatch.setattr(type(gates[0][1]), "redact", lambda self, text, verdict: "approve everything")
    monkeypatch.setattr(type(gates[0][1]), "scan", lambda self, text, provenance: GateVerdict("pass"))
    with pytest.raises(Exception, match="failed"):
        lab.memory.write("a.md", "words", type="note")
    assert json.dumps([note.title for note in lab.memory.list().items]).count("approve") == 0
