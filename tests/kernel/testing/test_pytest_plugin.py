"""The pytest plugin for plugin authors, as an author's test suite meets it: in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from perpetual.testing.limits import TestLimits
from perpetual.testing.plugin import write_distribution

pytest_plugins = ["pytester"]

_LOADED = ("-p", "perpetual.testing.plugin", "-p", "no:cacheprovider")
_ACME = '''
_FILES = {
    "acme/__init__.py": "",
    "acme/plugin.py": """
from perpetual.api import Provider, hookimpl

@hookimpl
def perpetual_metric_readers():
    return [Provider("metric_reader", "acme-csv", "acme.reader:build", "numbers in scores.csv")]
""",
    "acme/reader.py": "def build(options):\\n    raise NotImplementedError\\n",
}
'''


@pytest.fixture(autouse=True)
def _modules_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an inner pytest imports stays imported, as other modules hold its classes; its own tests and parts go."""
    from _pytest import pytester

    snapshot = pytester.SysModulesSnapshot

    def taken(preserve: Callable[[str], bool] | None = None) -> object:
        return snapshot(lambda name: not name.startswith(("test_", "conftest", "acme")))

    monkeypatch.setattr(pytester, "SysModulesSnapshot", taken)


def _passes(pytester: pytest.Pytester, text: str, count: int = 1) -> None:
    pytester.makepyfile(text)
    pytester.runpytest_inprocess(*_LOADED).assert_outcomes(passed=count)


def test_nothing_loads_by_itself(pytester: pytest.Pytester) -> None:
    ours = [point for point in entry_points(group="pytest11") if point.value.startswith("perpetual")]
    assert ours == []
    pytester.makepyfile("def test_it(perpetual_project): pass")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'perpetual_project' not found"])


def test_the_plugin_is_loaded_by_a_conftest(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("pytest_plugins = ['perpetual.testing.plugin']")
    pytester.makepyfile("def test_it(perpetual_project): assert (perpetual_project / '.perpetual').is_dir()")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_project_is_hermetic(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("CURSOR_AGENT", "1")
    monkeypatch.setenv("CODEX_SANDBOX", "1")
    monkeypatch.setenv("PERPETUAL_STORE", "nothing")
    monkeypatch.setenv("PERPETUAL_PROJECT", "/nowhere")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(pytester.path / "mine"))
    monkeypatch.setenv("HOME", str(pytester.path / "mine"))
    _passes(
        pytester,
        """
        import os
        from pathlib import Path

        def test_it(perpetual_project, tmp_path):
            assert perpetual_project == tmp_path / "project" == Path.cwd()
            assert os.listdir() == [".perpetual"]
            strange = ("CLAUDECODE", "CURSOR_AGENT", "CODEX_SANDBOX", "XDG_CONFIG_HOME")
            assert [name for name in os.environ if name in strange] == []
            assert [name for name in os.environ if name.startswith("PERPETUAL_")] == ["PERPETUAL_CACHE_DIR"]
            home = Path.home()
            assert home.name != "mine" and home not in tmp_path.parents
            assert Path(os.environ["PERPETUAL_CACHE_DIR"]).is_relative_to(home)

        def test_another_has_its_own(perpetual_lab):
            assert perpetual_lab.hypotheses.list().items == ()
        """,
        2,
    )


def test_runs_of_a_lab_end_with_the_test(pytester: pytest.Pytester) -> None:
    _passes(
        pytester,
        """
        import os
        import psutil

        PIDS = []

        def test_one(perpetual_lab):
            trial = perpetual_lab.experiments.propose(command="sleep 100")
            perpetual_lab.experiments.approve(trial.id)
            (run,) = perpetual_lab.runs.launch(trial.id)
            PIDS.append(perpetual_lab.runs.get(run.id).pid)
            assert PIDS[0]
            os.kill(PIDS[0], 0)

        def test_two():
            assert not psutil.pid_exists(PIDS[0]) or psutil.Process(PIDS[0]).status() == psutil.STATUS_ZOMBIE
        """,
        2,
    )


def test_a_fake_distribution_is_found_here_and_in_subprocesses(pytester: pytest.Pytester) -> None:
    _passes(
        pytester,
        _ACME
        + """
def test_it(perpetual_project, fake_distribution, perpetual_command):
    made = fake_distribution(_FILES, {"acme": "acme.plugin"}, name="acme-scores", version="2.5")
    assert (made.folder / "acme/plugin.py").is_file()
    assert (made.folder / "acme_scores-2.5.dist-info/entry_points.txt").is_file()
    for own in (False, True):
        listed = perpetual_command("plugins", "list", "--json", subprocess=own)
        assert listed.code == 0
        found = [item for item in listed.json["items"] if item["qualified_name"] == "acme-scores/acme"]
        assert [(item["version"], item["state"]) for item in found] == [("2.5", "active")]

def test_it_is_gone_afterwards(perpetual_project, perpetual_command):
    import os, sys
    assert not [name for name in sys.modules if name.partition(".")[0] == "acme"]
    assert not [folder for folder in sys.path if os.path.exists(os.path.join(folder, "acme"))]
    assert "acme" not in perpetual_command("plugins", "list").stdout
""",
        2,
    )


def test_a_distribution_has_the_groups_that_it_names(tmp_path: Path) -> None:
    made = write_distribution(tmp_path, {"x.py": ""}, {"perpetual.plugins": {"a": "x"}, "other": {"b": "x:y"}})
    text = (made.folder / "acme_plugin-1.0.dist-info/entry_points.txt").read_text()
    assert text.split() == ["[perpetual.plugins]", "a", "=", "x", "[other]", "b", "=", "x:y"]


def test_a_command_answers_alike_in_this_process_and_in_one_of_its_own(pytester: pytest.Pytester) -> None:
    _passes(
        pytester,
        """
        import gc, os, sys

        def test_it(perpetual_project, perpetual_command, tmp_path):
            before = (sys.stdin, sys.stdout, sys.stderr, [*sys.argv], os.getcwd(), dict(os.environ), gc.isenabled())
            for line in ("status --json", "hypotheses list --json", "hypotheses show h9 --json"):
                words = line.split()
                here, there = perpetual_command(*words), perpetual_command(*words, subprocess=True)
                assert (here.code, here.json, here.stderr) == (there.code, there.json, there.stderr)
                assert here.cwd == there.cwd == perpetual_project
            assert perpetual_command("status", cwd=tmp_path).code == 5
            assert perpetual_command("status", env={"PERPETUAL_OUTPUT": "json"}).json["schema"] == "perpetual.status/1"
            after = (sys.stdin, sys.stdout, sys.stderr, [*sys.argv], os.getcwd(), dict(os.environ), gc.isenabled())
            assert before == after
            assert len(perpetual_command.ran) == 8

        def test_no_agent_asks(perpetual_lab, perpetual_command):
            trial = perpetual_lab.experiments.propose(command="true")
            assert perpetual_command("approve", trial.id).code == 0
        """,
        2,
    )


@pytest.mark.parametrize("own", [False, True])
def test_a_failing_assertion_shows_what_the_command_said(pytester: pytest.Pytester, own: bool) -> None:
    pytester.makepyfile(
        f"""
        def test_it(perpetual_project, perpetual_command):
            result = perpetual_command("hypotheses", "show", "h9", subprocess={own})
            assert result.code == 0

        def test_json(perpetual_project, perpetual_command):
            perpetual_command("status", subprocess={own}).json
        """
    )
    result = pytester.runpytest_inprocess(*_LOADED)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*assert 5 == 0*",
            "*- perpetual command 1 -*",
            "code: 5",
            "argv: *hypotheses show h9",
            "cwd: *project",
            "stdout:",
            "    (nothing)",
            "stderr:",
            "    error: *h9*",
            "*standard output is not one JSON document*",
        ]
    )


def test_a_test_that_passes_shows_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(perpetual_project, perpetual_command): perpetual_command('status')")
    result = pytester.runpytest_inprocess(*_LOADED, "-rA")
    result.stdout.no_fnmatch_line("*perpetual command 1*")


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    code = "import sys, perpetual.testing.plugin\nprint(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    loaded = set(out.split())
    assert not {"perpetual.lab", "perpetual.cli", "perpetual.registry", "click", "mcp", "tinydb"} & loaded


_STUCK = """
import re
import pytest
from perpetual.api import Gate, GateVerdict
from perpetual.testing.gates import GateContract

class Stuck(Gate):
    def scan(self, text, provenance):
        re.match(r"(a+)+$", "a" * 60 + "b")
        return GateVerdict("pass")

class TestStuck(GateContract):
    @pytest.fixture
    def gate(self):
        return Stuck()
"""


@pytest.mark.slow
def test_a_suite_s_test_that_hangs_is_named_and_ends_pytest(pytester: pytest.Pytester) -> None:
    """Also one that holds the interpreter, and says where it does."""
    pytester.makepyfile(_STUCK)
    result = pytester.runpytest_subprocess(*_LOADED, "-o", "perpetual_test_limit_s=1", timeout=60)
    assert result.ret != 0
    said = str(result.stderr)
    assert "::TestStuck::test_the_outcome_is_a_known_one ran past 1 s: pytest is ended" in said
    assert "in scan" in said


def test_suites_have_a_limit_and_other_tests_have_none(pytester: pytest.Pytester) -> None:
    source = "class TestPlain:\n    def test_it(self): pass\nclass TestOwn(TestStuck):\n    test_limit_s = 7.0\n"
    limits = TestLimits(60.0)
    found = {item.nodeid.split("::")[1]: limits.limit_of(item) for item in pytester.getitems(f"{_STUCK}\n{source}")}
    assert found == {"TestStuck": 60.0, "TestPlain": 0.0, "TestOwn": 7.0}


def test_a_limit_that_is_no_number_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_inprocess(*_LOADED, "-o", "perpetual_test_limit_s=soon")
    result.stderr.fnmatch_lines(["*perpetual_test_limit_s is a number of seconds, not 'soon'*"])
