"""`perpetual plugins install|remove`: real pip, in an environment of the tests' own, from local files alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from perpetual.api import Inventory, NotFound, PerpetualError, UsageError
from perpetual.cli.app import run
from perpetual_devkit.installer import Installer, check_environment, find_installer, keeping_notes, removal_words
from perpetual_devkit.installing import Wanted, named_distribution, wanted

ROOT = Path(__file__).parents[3]
GATE = (
    "from perpetual.api import Provider, hookimpl\n\n\n@hookimpl\ndef perpetual_gates():\n"
    "    return [Provider(slot='gate', name='{name}', factory='{module}:Gate')]\n"
)


def wheel(
    folder: Path, name: str, source: str, *, version: str = "1.0", requires: str = "", plugin: bool = True
) -> Path:
    """Writes a wheel with one module, as a build tool would."""
    stem, module = name.replace("-", "_"), name.replace("-", "_") + "_part"
    info = f"{stem}-{version}.dist-info"
    files = {
        f"{module}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if plugin:
        short = name.removeprefix("perpetual-plugin-")
        files[f"{info}/entry_points.txt"] = f"[perpetual.plugins]\n{short} = {module}\n"
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in files.items():
            archive.writestr(each, text)
    return path


class Program:
    """The program in an environment that may be changed."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.python, self.folder = folder / "env" / "bin" / "python", folder
        self.environment = environment

    def __call__(self, *words: str, code: int = 0, **more: str) -> Any:
        done = subprocess.run(
            [str(self.python), "-m", "perpetual", *words, "--json"], cwd=self.folder,
            env={**self.environment, **more}, capture_output=True, text=True, check=False, timeout=110,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A virtual environment that sees what this one has, and installs into a folder of its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    site = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    seen = [ROOT, ROOT / "plugins", ROOT / "harness_templates", sysconfig.get_path("purelib")]
    Path(site, "seen.pth").write_text("\n".join(map(str, seen)), "utf-8")
    own = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PERPETUAL_STATE_DIR": str(tmp_path / "state"),
           "PERPETUAL_CACHE_DIR": str(tmp_path / "cache")}  # fmt: skip
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHONPATH"))}
    return Program(tmp_path, {**inherited, **own})


# --- with pip -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plugin_comes_and_goes(program: Program, tmp_path: Path) -> None:
    source = GATE.format(name="pii", module="perpetual_plugin_pii_part") + "\n\nclass Gate: ...\n"
    wheel(tmp_path / "wheels", "perpetual-plugin-pii", source)
    program.environment["PIP_FIND_LINKS"] = str(tmp_path / "wheels")
    planned = program("plugins", "install", "pii", "--dry-run")
    assert (planned["packages"], planned["plugins"]) == ([{"name": "perpetual-plugin-pii", "version": "1.0"}], [])
    assert planned["dry_run"] is True
    program("init", "-H", "none")
    done = program("plugins", "install", "pii")
    assert done["requirements"] == ["perpetual-plugin-pii"]
    assert [(item["name"], item["state"]) for item in done["plugins"]] == [("pii", "active")]
    again = program("plugins", "install", "pii")
    assert (again["packages"], [item["state"] for item in again["plugins"]]) == ([], ["active"])

    program("methodology", "set", "required_gates", "perpetual-plugin-pii/pii")
    refused = program("plugins", "remove", "pii", code=2)["error"]
    assert "--yes" in refused["message"]
    planned = program("plugins", "remove", "pii", "--dry-run")
    assert [(one["what"], one["name"]) for one in planned["affected"]] == [("gate", "perpetual-plugin-pii/pii")]
    assert program("plugins", "remove", "pii", "--yes")["removed"] is True
    names = [item["name"] for item in program("plugins", "list")["items"]]
    assert "pii" not in names
    program("plugins", "remove", "pii", "--yes", code=5)


@pytest.mark.slow
def test_one_that_does_not_load_is_named(program: Program, tmp_path: Path) -> None:
    path = wheel(tmp_path / "wheels", "perpetual-plugin-bad", "import no_such_module\n")
    done = program("plugins", "install", str(path), code=1)
    assert [(item["name"], item["state"]) for item in done["plugins"]] == [("bad", "failed")]
    assert "no_such_module" in done["plugins"][0]["reason"]
    program("init", "-H", "none")
    config = tmp_path / ".perpetual" / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("store: tinydb", "store: bad"), "utf-8")
    planned = program("plugins", "remove", "bad", "--dry-run")
    assert [one["what"] for one in planned["affected"]] == ["project"]
    plain = wheel(tmp_path / "wheels", "acme-plain", "", plugin=False)
    assert program("plugins", "install", str(plain), code=1)["error"]["code"] == "no_plugin"


@pytest.mark.slow
def test_an_install_that_fails_leaves_nothing(program: Program, tmp_path: Path) -> None:
    links = tmp_path / "wheels"
    program.environment["PIP_FIND_LINKS"] = str(links)
    wheel(links, "perpetual-plugin-needs", "", requires="perpetual-lab>=99")
    wheel(links, "perpetual-plugin-other", "", requires="acme-nowhere")
    for name in ("needs", "other", "missing"):
        error = program("plugins", "install", name, code=1)["error"]
        assert error["code"] == "install_failed"
        assert "pip could not install" in error["message"]
    found = [item["name"] for item in program("plugins", "list")["items"]]
    assert not {"needs", "other", "missing"} & {*found}


BACKEND = """
import os, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    info, name = "perpetual_plugin_here-1.dist-info", "perpetual_plugin_here-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        archive.writestr("here.pth", os.getcwd())
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: perpetual-plugin-here\\nVersion: 1\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/entry_points.txt", "[perpetual.plugins]\\nhere = here_part\\n")
        archive.writestr(f"{info}/RECORD", "")
    return name

build_wheel = build_editable
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "perpetual-plugin-here"
"""


@pytest.mark.slow
def test_a_folder_is_installed_to_be_worked_on(program: Program, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT, "utf-8")
    (folder / "backend.py").write_text(BACKEND, "utf-8")
    (folder / "here_part.py").write_text(GATE.format(name="here", module="here_part"), "utf-8")
    done = program("plugins", "install", "-e", "here")
    assert [(item["name"], item["state"]) for item in done["plugins"]] == [("here", "active")]
    (folder / "here_part.py").write_text("raise RuntimeError('edited')\n", "utf-8")
    states = {item["name"]: item["state"] for item in program("plugins", "list")["items"]}
    assert states["here"] == "failed"


@pytest.mark.slow
def test_the_working_directory_has_no_say(program: Program, tmp_path: Path) -> None:
    """Neither a module named pip nor a configuration of uv or pip beside it."""
    (tmp_path / "pip.py").write_text("raise SystemExit('the folder ran')\n", "utf-8")
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__main__.py").write_text("raise SystemExit('the folder ran')\n", "utf-8")
    error = program("plugins", "install", "missing", code=1)["error"]
    assert "the folder ran" not in error["message"]


# --- what is named --------------------------------------------------------------------------------------------


def test_a_short_name_means_a_distribution_of_the_convention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    texts = ["mine", "Perpetual_Plugin.Mine", "x[extra]>=1.2,<2", "https://host/x.whl", "x @ file:///x"]
    assert [(one.text, one.name) for one in wanted(texts, [])] == [
        ("perpetual-plugin-mine", "perpetual-plugin-mine"),
        ("Perpetual_Plugin.Mine", "perpetual-plugin-mine"),
        ("perpetual-plugin-x[extra]>=1.2,<2", "perpetual-plugin-x"),
        ("https://host/x.whl", None),
        ("x @ file:///x", "x"),
    ]
    assert wanted(["acme-store"], [], exact=True) == [Wanted("acme-store", "acme-store")]


def test_a_path_is_a_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match=r"no pyproject\.toml"):
        wanted(["./mine"], [])
    (tmp_path / "mine" / "pyproject.toml").write_text('[project]\nname = "Perpetual_Plugin_Mine"\n', "utf-8")
    assert wanted([], ["mine"]) == [Wanted(str(tmp_path / "mine"), "perpetual-plugin-mine", editable=True)]
    with pytest.raises(NotFound):
        wanted(["./nowhere"], [])


@pytest.mark.parametrize("text", ["", "-r", "a b", "--index-url=http://x", "ü", "x;y", "x\n--pre"])
def test_an_invalid_plugin_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no name"):
        wanted([text], [])


def test_an_empty_path_is_not_the_working_directory() -> None:
    with pytest.raises(UsageError, match="is no name, no path"):
        wanted([], [""])


@pytest.mark.parametrize("name", ["sqlite", "perpetual-lab", "perpetual_lab==1"])
def test_bundled_plugins_are_not_installed(name: str) -> None:
    with pytest.raises(UsageError):
        wanted([name], [], bundled=["sqlite"])


def test_a_bundled_plugin_is_not_removed(project: Path) -> None:
    with pytest.raises(UsageError) as refused:
        named_distribution("perpetual-lab/tinydb", Inventory.outside(project))
    assert refused.value.hint == "perpetual config set plugins.disabled tinydb"
    with pytest.raises(NotFound, match="tinydb"):
        named_distribution("tinidb", Inventory.outside(project))


@pytest.mark.parametrize("line", ["install x", "install x --dry-run", "remove tinydb --yes"])
def test_an_agent_changes_no_environment(
    project: Path, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setattr("perpetual_devkit.installer.subprocess.run", None)
    assert run(["plugins", *line.split(), "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not_permitted"


# --- the environment ------------------------------------------------------------------------------------------


def test_uv_is_used_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_installer().name == "pip"
    monkeypatch.setattr("perpetual_devkit.installer.find_spec", lambda name: None)
    monkeypatch.setattr("perpetual_devkit.installer.shutil.which", lambda name: f"/bin/{name}")
    tool = find_installer()
    assert (tool, tool.into) == (Installer("uv", ("/bin/uv", "pip")), ("--python", sys.executable))
    assert removal_words() == f"uv pip uninstall --python {sys.executable} perpetual-lab"
    monkeypatch.setattr("perpetual_devkit.installer.shutil.which", lambda name: None)
    with pytest.raises(PerpetualError, match="neither pip nor uv"):
        find_installer()


def test_a_managed_or_read_only_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_environment()
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(PerpetualError, match="cannot be written") as refused:
        check_environment()
    assert refused.value.code == "environment_read_only"
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    with pytest.raises(PerpetualError, match="package manager") as refused:
        check_environment()
    assert "pipx" in f"{refused.value.hint}"


@pytest.mark.parametrize(("mark", "word"), [("pipx_metadata.json", "pipx inject"), ("uv-receipt.toml", "--with x")])
def test_a_tools_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, word: str) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert keeping_notes(["x"]) == []
    (tmp_path / mark).touch()
    assert word in keeping_notes(["x"])[0]
    assert removal_words().endswith("uninstall perpetual-lab")
