"""Configuration and methodology: precedence with origins, and what a wrong file or value is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual.config import FILE, FOLDER, FORMAT, KEYS, Config, find_project, user_file
from perpetual.errors import ConfigError, ForeignProject, NoProject, PerpetualError, UsageError
from perpetual.lab.config import LabConfig
from perpetual.lab.methodology import FILE as METHODOLOGY_FILE
from perpetual.lab.methodology import KEYS as METHODOLOGY_KEYS
from perpetual.lab.methodology import Methodology
from perpetual.slots.table import SLOTS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a project's configuration and nothing else."""
    folder = tmp_path / "lab"
    (folder / FOLDER).mkdir(parents=True)
    _write(folder, "format: 1\nproject: lab\nproject_id: '00ff'\n")
    return folder


def _write(root: Path, text: str) -> None:
    """The text, with an id where it has none: each project has one."""
    has_id = "project_id" in text or "format: 1" not in text
    (root / FOLDER / FILE).write_text(text if has_id else f"{text}project_id: '00ff'\n", "utf-8")


def _write_user(text: str) -> None:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(text, "utf-8")


def _in_force(config: Config, name: str) -> tuple[object, str]:
    item = next(item for item in config.items() if item.key == name)
    assert item.value == config[name]
    return item.value, item.origin


def test_each_place_wins_over_the_ones_below_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _in_force(Config(root), "gpus") == ("nvml", "default")
    _write_user("gpus: of-user\n")
    assert _in_force(Config(root), "gpus") == ("of-user", "user")
    _write(root, "format: 1\ngpus: of-project\n")
    assert _in_force(Config(root), "gpus") == ("of-project", "project")
    monkeypatch.setenv("PERPETUAL_GPUS", "of-environment")
    assert _in_force(Config(root), "gpus") == ("of-environment", "environment")


def test_a_place_decides_only_the_keys_it_names(root: Path) -> None:
    _write_user("scheduler: slurm\nstore: sqlite\n")
    _write(root, "format: 1\nstore: tinydb\n")
    config = Config(root)
    assert _in_force(config, "scheduler") == ("slurm", "user")
    assert _in_force(config, "store") == ("tinydb", "project")
    assert _in_force(config, "memory") == ("git", "default")


@pytest.mark.parametrize("name", ["project", "project_id", "format"])
def test_identity_keys_are_not_taken_from_the_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = Config(root)[name]
    monkeypatch.setenv(f"PERPETUAL_{name.upper()}", "77")
    assert Config(root)[name] == before


def test_setting_a_key_that_the_environment_decides_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERPETUAL_GPUS", "none")
    config = Config(root)
    config.set("gpus", "nvml")
    assert _in_force(config, "gpus") == ("none", "environment")
    monkeypatch.delenv("PERPETUAL_GPUS")
    assert _in_force(Config(root), "gpus") == ("nvml", "project")


def test_set_keeps_comments_order_quotes_and_long_lines(root: Path) -> None:
    long = " ".join(["x" * 60] * 4)
    text = f"# above\nformat: 1  # beside\n\n# of the name\nproject: '{long}'\ngpus: \"nvml\"\n"
    text += "project_id: '00ff'\n# below\n"
    _write(root, text)
    Config(root).set("gpus", "none")
    assert (root / FOLDER / FILE).read_text("utf-8") == text.replace("nvml", "none")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("format: 1\nproject: lab\nstore: [tinydb\n", None, "expected"),
        ("format: 1\n\tproject: lab\n", 2, "cannot start any token"),
        ("format: 1\nstoer: tinydb\n", 2, "did you mean store"),
        ("format: 1\nproject: lab\nstore: 3\n", 3, "store must be text"),
        ("format: yes-please\n", 1, "format must be a whole number"),
        ("format: 1\nplugins: off\n", 2, "one section per plugin"),
        ("format: 1\nplugins:\n  disabled: immune\n", 3, "disabled must be a list"),
        ("format: 1\nplugins:\n  acme: 3\n", 3, "section of plugin acme"),
        ("- just\n- a list\n", 1, "expected keys with values"),
        ("format: 1\nformat: 1\n", 2, "duplicate key"),
    ],
)
def test_a_wrong_file_is_refused_by_file_and_line(root: Path, text: str, line: int | None, words: str) -> None:
    _write(root, text)
    with pytest.raises(ConfigError) as caught:
        Config(root)
    place = f"{root / FOLDER / FILE}:{'' if line is None else line}"
    assert place in caught.value.message
    assert words in caught.value.message
    assert caught.value.exit == 2
    assert (root / FOLDER / FILE).read_text("utf-8").startswith(text)


def test_a_file_that_is_no_text_is_refused(root: Path) -> None:
    (root / FOLDER / FILE).write_bytes(b"format: 1\nproject: \xff\xfe\n")
    with pytest.raises(ConfigError, match=FILE):
        Config(root)


def test_a_newer_project_is_refused_by_name_before_its_keys_are_judged(root: Path) -> None:
    text = f"format: {FORMAT + 1}\nsomething_new: 3\n"
    _write(root, text)
    with pytest.raises(ForeignProject, match=f"format {FORMAT + 1}.*up to {FORMAT}") as caught:
        Config(root)
    assert caught.value.exit == 6
    assert (root / FOLDER / FILE).read_text("utf-8") == text


# --- where the project is -----------------------------------------------------------------------------------


def test_the_project_is_found_by_name_by_environment_and_by_walking_up(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    assert find_project(deep) == root
    other = tmp_path / "other"
    (other / FOLDER).mkdir(parents=True)
    _write(other, "format: 1\n")
    monkeypatch.setenv("PERPETUAL_PROJECT", str(other / FOLDER))
    assert find_project(deep) == other
    assert find_project(deep, explicit=str(root)) == root


def test_a_folder_without_configuration_is_no_project(root: Path) -> None:
    """Something else's `.perpetual/`, or what an interrupted init left, must not hide the project above."""
    inner = root / "inner"
    (inner / FOLDER).mkdir(parents=True)
    assert find_project(inner) == root
    with pytest.raises(NoProject):
        find_project(explicit=str(inner))


@pytest.mark.parametrize("name", ["graph.db", FILE])
def test_another_tools_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / name).write_text("budget_gpu_hours: 3\n", "utf-8")
    for start, explicit in ((tmp_path, None), (None, str(tmp_path))):
        with pytest.raises(ForeignProject) as caught:
            find_project(start, explicit)
        assert caught.value.exit == 6


# --- methodology --------------------------------------------------------------------------------------------


def test_methodology_answers_every_key_with_origin_and_meaning(tmp_path: Path) -> None:
    path = tmp_path / METHODOLOGY_FILE
    path.write_text("max_concurrent_runs: 9\n", "utf-8")
    items = {item.key: item for item in Methodology(path).items()}
    assert set(items) == set(METHODOLOGY_KEYS)
    assert (items["max_concurrent_runs"].value, items["max_concurrent_runs"].origin) == (9, "project")
    assert (items["min_replicates"].value, items["min_replicates"].origin) == (2, "default")
    assert all(item.meaning for item in items.values())


def test_the_default_file_says_what_each_key_means_and_reads_as_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / METHODOLOGY_FILE
    Methodology.write_default(path, {"alpha": 0.05})
    text = path.read_text("utf-8")
    read = Methodology(path)
    for name, key in METHODOLOGY_KEYS.items():
        assert key.meaning in text
        assert read[name] == (0.05 if name == "alpha" else key.default)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("alpha", "0.05", 0.05),
        ("alpha", "null", None),
        ("auto_approve", "true", True),
        ("auto_approve", "off", False),
        ("max_concurrent_runs", "12", 12),
        ("required_gates", "immune, replay", ["immune", "replay"]),
        ("required_gates", "", []),
        ("protected_paths", '["score.py", data/*.csv]', ["score.py", "data/*.csv"]),  # as the file has it
        ("protected_paths", "[]", []),
        ("protected_paths", "[ab]*.py, c", ["[ab]*.py", "c"]),
        ("exploration_strategy", "coin", "coin"),
    ],
)
def test_set_takes_text_and_writes_the_keys_own_type(tmp_path: Path, name: str, text: str, value: object) -> None:
    path = tmp_path / METHODOLOGY_FILE
    path.write_text("# mine\nkill_grace_s: 3.0  # short\n", "utf-8")
    methodology = Methodology(path)
    methodology.set(name, text)
    item = methodology.item(name)
    assert (item.value, item.origin) == (value, "project")
    assert Methodology(path)[name] == value
    assert path.read_text("utf-8").startswith("# mine\nkill_grace_s: 3.0  # short\n")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("alpha", "nan", "must be a number"),
        ("alpha", "0.9", "at most 0.5"),
        ("alpha", "often", "must be a number or null"),
        ("max_concurrent_runs", "0", "at least 1"),
        ("max_concurrent_runs", "2.5", "whole number"),
        ("auto_approve", "maybe", "true or false"),
        ("memory_exposure", "scaned", "did you mean scanned"),
        ("max_runs", "3", "did you mean max_run_hours"),
        ("kill_grace_s", "-1", "at least 0"),
        ("kill_grace_s", "inf", "must be a number"),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_is_written(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / METHODOLOGY_FILE
    path.write_text("kill_grace_s: 3.0\n", "utf-8")
    with pytest.raises(UsageError, match=words) as caught:
        Methodology(path).set(name, text)
    assert caught.value.exit == 2
    assert path.read_text("utf-8") == "kill_grace_s: 3.0\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\nmax_concurent_runs: 3\n", 2, "did you mean max_concurrent_runs"),
        ("# one\n# two\nalpha: soon\n", 3, "alpha must be a number"),
        ("alpha: .nan\n", 1, "alpha must be a number"),
        ("confidence_refute_threshold: 0.5\nconfidence_support_threshold: 0.5\n", 1, "must lie below"),
    ],
)
def test_a_wrong_methodology_is_refused_by_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / METHODOLOGY_FILE
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        Methodology(path)
    assert f"{path}:{line}" in caught.value.message
    assert words in caught.value.message


def test_thresholds_may_not_meet(tmp_path: Path) -> None:
    methodology = Methodology(tmp_path / METHODOLOGY_FILE)
    methodology.set("confidence_support_threshold", "0.5")
    with pytest.raises(PerpetualError, match="must lie below"):
        methodology.set("confidence_refute_threshold", "0.5")


def test_every_slot_of_the_configuration_has_a_meaning() -> None:
    assert all(key.meaning for key in KEYS.values())
    assert all(KEYS[name].type == "str" for name in [slot.key for slot in SLOTS.values()] if name in KEYS)


def test_devices_may_be_excluded_by_number_without_quotes(root: Path) -> None:
    _write(root, "format: 1\ngpus_excluded: [0, GPU-ab, '2']\n")
    assert Config(root)["gpus_excluded"] == ["0", "GPU-ab", "2"]


# --- programs that live long --------------------------------------------------------------------------------------


def test_changed_files_are_read_again(root: Path) -> None:
    config = LabConfig(root)
    known = config.methodology
    config.refresh()
    assert config.methodology is known  # nothing has changed
    _write(root, "format: 1\nproject: renamed\n")
    config.refresh()
    assert config["project"] == "renamed"
    (root / FOLDER / METHODOLOGY_FILE).write_text("max_concurrent_runs: 7\n")
    config.refresh()
    assert config.methodology["max_concurrent_runs"] == 7
    _write_user("gpus: of-user\n")
    config.refresh()
    assert config["gpus"] == "of-user"


def test_a_file_that_became_invalid_is_named_and_the_old_values_stay(root: Path) -> None:
    config = Config(root)
    _write(root, "format: 1\nprojcet: lab\n")
    for _ in range(2):
        with pytest.raises(PerpetualError, match="projcet"):
            config.refresh()
        assert config["project"] == "lab"
    _write(root, "format: 1\nproject: mended\n")
    config.refresh()
    assert config["project"] == "mended"
