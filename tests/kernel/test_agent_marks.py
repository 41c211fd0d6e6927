"""Which variables show that a shell is an agent's, and what is a person's there: every mark, every setting."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.config import KEYS as CONFIG_KEYS
from perpetual.config import user_file
from perpetual.errors import ConfigError, NotPermitted, UsageError
from perpetual.lab.methodology import KEYS as METHODOLOGY_KEYS
from perpetual.lab.permissions import actor_name
from perpetual.lab.protected_keys import AGENTS_MAY_SET, is_free
from perpetual.toolkit.agents import AGENT_VARIABLES, harness, mark

MARKS = {
    "CLAUDECODE": "agent:claude-code",
    "CURSOR_AGENT": "agent:cursor",
    "CODEX_SANDBOX": "agent:codex",
    "CODEX_THREAD_ID": "agent:codex",
    "CODEX_SESSION_ID": "agent:codex",
    "CODEX_CI": "agent:codex",
    "OPENCODE": "agent:opencode",
    "GEMINI_CLI": "agent:gemini-cli",
    "QWEN_CODE": "agent:qwen-code",
    "COPILOT_CLI": "agent:copilot-cli",
    "COPILOT_AGENT_SESSION_ID": "agent:copilot-cli",
    "PERPETUAL_DISPATCH": "agent:unknown",
    "KILO": "agent:kilo",
    "AGENT": "agent:unknown",
    "AI_AGENT": "agent:unknown",
}


@pytest.mark.parametrize(("variable", "actor"), MARKS.items())
def test_every_mark_makes_the_shell_an_agents(variable: str, actor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(MARKS) == set(AGENT_VARIABLES)
    assert not actor_name().startswith("agent:")
    monkeypatch.setenv(variable, "1")
    assert actor_name() == actor
    monkeypatch.setenv(variable, " ")
    assert not actor_name().startswith("agent:")


@pytest.mark.parametrize(
    ("environment", "agent"),
    [
        ({"AGENT": "1"}, "an agent"),
        ({"AGENT": "goose"}, "Goose"),
        ({"AGENT": "Amp"}, "Amp"),
        ({"AGENT": "claude_code"}, "Claude Code"),
        ({"AGENT": "0"}, None),
        ({"AGENT": "build-7"}, None),  # a build machine's name
        ({"AGENT": "/tmp/ssh-x/agent.12"}, None),
        ({"AI_AGENT": "claude-code_2.1.330_agent"}, "Claude Code"),
        ({"AI_AGENT": "something new"}, "an agent"),
        ({"AI_AGENT": "0"}, "an agent"),
        ({"AGENT": "1", "OPENCODE": "1", "KILO": "1"}, "Kilo"),
        ({"AGENT": "1", "OPENCODE": "1"}, "OpenCode"),
        ({"TERM_PROGRAM": "vscode", "CURSOR_TRACE_ID": "1", "SSH_AGENT_PID": "4"}, None),  # an editor's terminal
    ],
)
def test_generic_variables_mark_an_agent(environment: dict[str, str], agent: str | None) -> None:
    assert harness(environment) == agent


def test_the_refusal_names_the_variable_and_the_agent(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab.open(project) as lab:
        made = lab.experiments.propose(command="true")
        for variable, value, said in (
            ("AGENT", "1", "AGENT=1 is set: this shell is an agent's"),
            ("CLAUDECODE", "1", "CLAUDECODE=1 is set: this shell is Claude Code's"),
            ("CODEX_THREAD_ID", "0199c2-" * 6, "CODEX_THREAD_ID is set: this shell is Codex's"),
        ):
            with monkeypatch.context() as under:
                under.setenv(variable, value)
                with pytest.raises(NotPermitted) as caught:
                    lab.experiments.approve(made.id)
            assert said in caught.value.message
            assert caught.value.exit == 4
        lab.experiments.approve(made.id)


def _marks_in(path: Path, *names: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text("utf-8") if path.exists() else ""
    lines = [line for line in text.splitlines() if not line.startswith("agent_marks:")]
    path.write_text("\n".join([*lines, f"agent_marks: [{', '.join(names)}]", ""]), "utf-8")


def test_configured_marks_are_added_up_and_take_none_away(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _marks_in(user_file(), "MY_AGENT")
    _marks_in(project / ".perpetual" / "config.yaml", "THEIR_AGENT")
    monkeypatch.setenv("PERPETUAL_AGENT_MARKS", "THIRD_AGENT")
    for variable in ("MY_AGENT", "THEIR_AGENT", "THIRD_AGENT", "CLAUDECODE"):
        with monkeypatch.context() as under:
            under.setenv(variable, "1")
            with Lab.open(project) as lab:
                assert lab.actor.startswith("agent:")
                made = lab.experiments.propose(command=f"true {variable}")
                with pytest.raises(NotPermitted, match=variable):
                    lab.experiments.approve(made.id)
                with pytest.raises(NotPermitted):
                    lab.settings.set_config("agent_marks", "")
    with Lab.open(project) as lab:
        assert lab.settings.set_config("agent_marks", "OTHER").value == ["MY_AGENT", "OTHER", "THIRD_AGENT"]


def test_a_mark_is_the_name_of_a_variable(project: Path) -> None:
    with Lab.open(project) as lab:
        before = (project / ".perpetual" / "config.yaml").read_bytes()
        with pytest.raises(ConfigError, match="A=1"):
            lab.settings.set_config("agent_marks", "A=1")
        assert (project / ".perpetual" / "config.yaml").read_bytes() == before
    _marks_in(project / ".perpetual" / "config.yaml", "'NO NAME'")
    with pytest.raises(ConfigError, match=r"config.yaml:\d+: agent_marks"):
        Lab.open(project)


# --- settings -------------------------------------------------------------------------------------------------------

# Each key of the configuration and the methodology, and whether an agent may set it. A new key belongs here.
MAY_AGENTS = {
    "methodology": {
        "agents_may_approve": False,
        "alpha": False,
        "auto_analyze": True,
        "auto_approve": False,
        "auto_approve_max_run_hours": False,
        "auto_propose": True,
        "auto_retry": False,
        "code_changes": False,
        "code_ignore": False,
        "confidence_refute_threshold": False,
        "confidence_support_threshold": False,
        "default_cost_run_hours": False,
        "default_wall_s": False,
        "exploration_strategy": True,
        "kill_grace_s": False,
        "max_attempts": False,
        "max_concurrent_runs": False,
        "max_run_hours": False,
        "memory_exposure": False,
        "memory_write_on_completion": True,
        "min_information_gain_bits": True,
        "min_replicates": False,
        "no_output_s": False,
        "on_overrun": False,
        "proposal_batch_size": True,
        "protected_paths": False,
        "require_confirmation": False,
        "required_gates": False,
    },
    "config": {
        "agent_marks": False,
        "gpu_foreign": False,
        "gpu_ids": False,
        "gpus": False,
        "gpus_excluded": False,
        "mcp": False,
        "memory": False,
        "project": True,
        "scheduler": False,
        "store": False,
    },
}


def test_each_setting_is_said_to_be_a_persons_or_an_agents() -> None:
    """Keys that are not in the table here are a person's; what agents may set is in both."""
    known = {"methodology": set(METHODOLOGY_KEYS), "config": set(CONFIG_KEYS)}
    for file, table in MAY_AGENTS.items():
        assert {name for name, free in table.items() if free} == AGENTS_MAY_SET[file] <= known[file]
        assert all(is_free(file, name) == table.get(name, False) for name in known[file])


def _deeds(lab: Lab) -> dict[str, Callable[[str, str], object]]:
    return {"methodology": lab.settings.set_methodology, "config": lab.settings.set_config}


@pytest.mark.parametrize("by", ["shell", "name"])
def test_an_agent_sets_no_guarded_key_by_any_way(project: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [project / ".perpetual" / name for name in ("config.yaml", "methodology.yaml")]
    before = [file.read_bytes() for file in files]
    if by == "shell":
        monkeypatch.setenv("GEMINI_CLI", "1")
    with Lab.open(project, actor=None if by == "shell" else "mcp:someone/1") as lab:
        items = {"methodology": lab.settings.methodology(), "config": lab.settings.config()}
        plugins = [item.key for item in items["config"] if item.key.startswith("plugins.")]
        assert {"plugins.disabled", "plugins.mcp.hosts"} <= {*plugins}
        for file, known in (("methodology", METHODOLOGY_KEYS), ("config", {**CONFIG_KEYS, **dict.fromkeys(plugins)})):
            for name in known:
                if is_free(file, name) or name in ("format", "project_id"):
                    continue
                with pytest.raises(NotPermitted):
                    _deeds(lab)[file](name, "1")
        for deed in _deeds(lab).values():
            with pytest.raises(UsageError):
                deed("there_is_none", "1")
        assert [file.read_bytes() for file in files] == before
        assert lab.settings.set_methodology("proposal_batch_size", "5").value == 5
        assert lab.settings.set_config("project", "another").value == "another"


def test_an_agents_name_is_as_good_as_its_shell(project: Path) -> None:
    """Over MCP the server has the variables of the client or none; the lab acts in the client's name."""
    assert mark(os.environ) is None
    with Lab.open(project, actor="mcp:gemini-cli/1") as lab:
        made = lab.experiments.propose(command="true")
        for deed in (
            lambda: lab.experiments.approve(made.id),
            lambda: lab.budget.set_limit(None),
            lambda: lab.memory.promote("a.md", "x"),
            lambda: lab.runs.launch(made.id, command="true"),
        ):
            with pytest.raises(NotPermitted):
                deed()


def test_another_name_does_not_make_a_person_of_an_agents_shell(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python an agent may call itself anything; its shell still says what it is."""
    with Lab.open(project) as lab:
        lab.hypotheses.add("m grows", metric="m", direction="max", mde=0.1, baseline=1.0)
        lab.memory.write("skills/a.md", "# A card\ndo this", type="skill_card")
    monkeypatch.setenv("CLAUDECODE", "1")
    with Lab.open(project, actor="user:me") as lab:
        made = lab.experiments.propose(command="true")
        for deed in (
            lambda: lab.experiments.approve(made.id),
            lambda: lab.hypotheses.update("h1", status="refuted", why="I say so"),
            lambda: lab.settings.set_methodology("alpha", "0.1"),
        ):
            with pytest.raises(NotPermitted):
                deed()
        assert lab.memory.search("card").items == ()
        assert lab.actor == "agent:claude-code", "what it does and says is an agent's"


# --- the queue and the store ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["paused", "draining"])
def test_an_agent_lifts_its_own_pause_and_no_persons(
    project: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over MCP and by its shell; a person who repeats an agent's pause makes it a person's."""
    with Lab.open(project, actor="mcp:someone/1") as agent, Lab.open(project) as person:
        agent.queue.set_state(state)
        assert agent.queue.set_state("running") == "running"
        agent.queue.set_state(state)
        person.queue.set_state(state)
        for wanted in {"running", "paused", "draining"} - {state}:
            with pytest.raises(NotPermitted, match=state):
                agent.queue.set_state(wanted)
        person.queue.set_state("running")
        person.queue.set_state(state)
    monkeypatch.setenv("QWEN_CODE", "1")
    with Lab.open(project) as lab:
        with pytest.raises(NotPermitted, match="QWEN_CODE"):
            lab.queue.set_state("running")
        assert lab.queue.set_state(state) == lab.queue.state() == state


def test_an_agent_neither_moves_the_record_nor_brings_another(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lab.open(project) as lab:
        lab.hypotheses.add("m grows", metric="m", direction="max", mde=0.1, baseline=1.0)
        lab.storage.export_file(tmp_path / "record.jsonl")
    monkeypatch.setenv("KILO", "1")
    with Lab.open(project) as lab:
        with pytest.raises(NotPermitted):
            lab.storage.migrate("sqlite")
        assert lab.storage.migrate("sqlite", dry_run=True)["rows"]
    with Lab.init(tmp_path / "fresh") as lab:
        with pytest.raises(NotPermitted):
            lab.storage.import_file(tmp_path / "record.jsonl")
        assert lab.storage.import_file(tmp_path / "record.jsonl", dry_run=True)["rows"]
        assert not lab.hypotheses.list().items
