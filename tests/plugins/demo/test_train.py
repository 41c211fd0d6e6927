"""The demo's training script, run as a user's own file and imported by path.  Run by pytest."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

import perpetual_demo
from perpetual_demo.campaign import CAMPAIGN, swapped

SCRIPT = Path(str(perpetual_demo.__file__)).with_name("train.py")
SEED_A, SEED_B = 4611686018427387847, 8070450532247928832  # as a lab draws them: 63 bits
SHORT = ("--chars", "5000")


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_train", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


train = _load()


@pytest.fixture(autouse=True)
def _no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may themselves run inside a supervised run."""
    for name in [name for name in os.environ if name.startswith("PERPETUAL_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def passages() -> list[str]:
    found: list[str] = train.read_passages()
    return found


def run(folder: Path, *arguments: str, **environment: str) -> dict[str, float]:
    """Runs a copy of the script in `folder`, with nothing but the standard library, and reads its results."""
    script = folder / "train.py"
    script.write_bytes(SCRIPT.read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", script.name, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {name: float(value) for name, value in (line.split(": ") for line in done.stdout.splitlines())}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a call that must end with status 2 says on standard error."""
    with pytest.raises(SystemExit) as stopped:
        train.main(arguments)
    assert stopped.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


# Runs


def test_a_seed_decides_the_result(tmp_path: Path) -> None:
    first = run(tmp_path, *SHORT, "--seed", str(SEED_A))
    assert run(tmp_path, *SHORT, "--seed", str(SEED_A)) == first
    other = run(tmp_path, *SHORT, "--seed", str(SEED_B))
    assert other["val_bpc"] != first["val_bpc"]
    assert 1.0 < first["val_bpc"] < math.log2(200)
    assert first["train_chars"] == 5000
    assert set(os.listdir(tmp_path)) == {"train.py"}


def test_the_seed_comes_from_the_environment(tmp_path: Path) -> None:
    plain = run(tmp_path, *SHORT)
    assert run(tmp_path, *SHORT, PERPETUAL_SEED="0") == plain
    drawn = run(tmp_path, *SHORT, PERPETUAL_SEED=str(SEED_A))
    assert drawn == run(tmp_path, *SHORT, "--seed", str(SEED_A), PERPETUAL_SEED=str(SEED_B))
    assert drawn["val_bpc"] != plain["val_bpc"]


def test_progress_is_appended_to_the_metrics_file(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"note": "there before"}\n', encoding="utf-8")
    results = run(tmp_path, *SHORT, "--smoothing", "discount", PERPETUAL_METRICS=str(metrics))
    before, *rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    assert before == {"note": "there before"}
    assert [row["step"] for row in rows] == [2500, 5000]
    assert all(set(row) == {"step", "val_bpc"} for row in rows)
    assert rows[-1]["val_bpc"] == results["val_bpc"] < rows[0]["val_bpc"]


def test_options_from_the_configuration_file(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"order": 2, "smoothing": "add", "k": 1, "chars": 3000, "seed": SEED_A}))
    told = run(tmp_path, "--order", "2", "--smoothing", "add", "--k", "1", "--chars", "3000", "--seed", str(SEED_A))
    assert run(tmp_path, PERPETUAL_CONFIG=str(config)) == told
    over = run(tmp_path, "--chars", "4000", PERPETUAL_CONFIG=str(config))
    assert over["train_chars"] == 4000, "the command line wins"
    assert over["val_bpc"] != told["val_bpc"]
    config.write_text("{}")
    assert run(tmp_path, *SHORT, PERPETUAL_CONFIG=str(config)) == run(tmp_path, *SHORT)


@pytest.mark.parametrize("claim", [*CAMPAIGN, *swapped()], ids=lambda claim: f"{claim.key}-{claim.expected}")
def test_the_campaign_uses_options_that_exist(claim: object) -> None:
    parsed = [train.make_parser().parse_args(shlex.split(getattr(claim, arm))) for arm in ("baseline", "treatment")]
    assert vars(parsed[0]) != vars(parsed[1])


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--order", "0"], "argument --order: 0 is less than 1"),
        (["--order", "three"], "argument --order: invalid whole_number value: 'three'"),
        (["--smoothing", "kneser-ney"], "argument --smoothing: invalid choice: 'kneser-ney'"),
        (["--k", "0"], "argument --k: 0 is not a number above 0"),
        (["--k", "inf"], "argument --k: inf is not a number above 0"),
        (["--k", "nan"], "argument --k: nan is not a number above 0"),
        (["--discount", "1"], "argument --discount: 1 is not between 0 and 1"),
        (["--chars", "0"], "argument --chars: 0 is less than 1"),
        (["--chars", "99999999"], "argument --chars: there are only"),
        (["--seed", "-1"], "argument --seed: -1 is less than 0"),
        (["--smooth", "add"], "unrecognized arguments: --smooth"),
    ],
)
def test_a_bad_option_is_named(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"ordr": 5}', "unrecognized arguments: --ordr=5"),
        ('{"order": null}', "argument --order: invalid whole_number value: 'None'"),
        ('{"smoothing": "none"}', "argument --smoothing: invalid choice: 'none'"),
        ("[5]", "holds no JSON object"),
        ("{", "PERPETUAL_CONFIG: cannot read"),
        (None, "PERPETUAL_CONFIG: cannot read"),
    ],
)
def test_a_bad_configuration_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    content: str | None,
    message: str,
) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("PERPETUAL_CONFIG", str(path))
    assert message in refused(capsys)


def test_a_bad_seed_in_the_environment_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERPETUAL_SEED", "many")
    assert "argument --seed: invalid seed_number value: 'many'" in refused(capsys)


# Text


def test_the_held_out_text_does_not_depend_on_the_seed(passages: list[str]) -> None:
    (first, held_out), (second, held_out_again) = (train.split_passages(passages, seed) for seed in (SEED_A, SEED_B))
    assert held_out == held_out_again
    assert len(held_out) == train.HELD_OUT_CHARS
    assert first != second
    assert sorted(first.splitlines()) == sorted(second.splitlines())
    assert len(first) > 200_000, "far more than the largest arm trains on, so that seeds see different text"


def test_no_held_out_paragraph_is_trained_on(passages: list[str]) -> None:
    training, held_out = train.split_passages(passages, 0)
    whole = held_out.splitlines()[:-1]  # the last one is cut off
    assert len(whole) > 50
    assert set(training.splitlines()).isdisjoint(whole)


def test_another_version_of_the_topics_moves_nothing_else(passages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic more leaves every passage where it was, in the training or in the held-out text."""
    added = {f"zz-{number}": f"A topic that later versions have, number {number}." for number in range(40)}
    monkeypatch.setattr(train, "topics", {**train.topics, **added})
    monkeypatch.setattr(train, "HELD_OUT_CHARS", 10_000_000)
    more = train.read_passages()
    assert more == [*passages, *(f"{text}\n" for text in (added[key] for key in sorted(added)))]
    for before, after in zip(train.split_passages(passages, 0), train.split_passages(more, 0), strict=True):
        assert len(after) > len(before)
        assert set(before.splitlines()) < set(after.splitlines())


# Model

SMOOTHED = [("add", {"k": 0.01}), ("add", {"k": 1.0}), ("witten-bell", {}), ("discount", {"discount": 0.75})]


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize(("smoothing", "options"), SMOOTHED)
def test_probabilities_sum_to_one(passages: list[str], smoothing: str, options: dict[str, float], order: int) -> None:
    alphabet = sorted(set("".join(passages)))
    training, held_out = train.split_passages(passages, SEED_A)
    model = train.NgramModel(order, smoothing, len(alphabet), **options)
    model.learn(training[:20_000])
    reach = order - 1
    assert set(held_out) <= set(alphabet)
    contexts = {"", "the ", " cla", "zqxj", "}}}}", "é—é—", held_out[-4:]}
    for context in {text[len(text) - reach :] if reach < len(text) else text for text in contexts}:
        chances = [model.probability(context, character) for character in alphabet]
        assert min(chances) > 0.0
        assert math.fsum(chances) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("smoothing", "options", "expected"),
    [
        ("add", {"k": 0.5}, (1 + 0.5) / (2 + 0.5 * 3)),
        ("witten-bell", {}, (1 + 2 * (1 + 2 / 3) / (3 + 2)) / (2 + 2)),
        ("discount", {"discount": 0.5}, (0.5 + 0.5 * 2 * (0.5 + 0.5 * 2 / 3) / 3) / 2),
    ],
)
def test_probabilities_equal_those_worked_by_hand(smoothing: str, options: dict[str, float], expected: float) -> None:
    """Bigrams of "aab" over three characters: after "a" once "a" and once "b"."""
    model = train.NgramModel(2, smoothing, 3, **options)
    model.learn("aab")
    assert model.probability("a", "b") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("smoothing", train.SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 4])
def test_learning_in_pieces_is_learning_the_whole(passages: list[str], smoothing: str, order: int) -> None:
    text = passages[0][:300]
    whole, pieces = (train.NgramModel(order, smoothing, 100) for _ in range(2))
    whole.learn(text)
    for piece in _pieces(text, (1, 2, 5, 40)):
        pieces.learn(piece)
    for table in ("seen", "total", "kinds"):
        assert getattr(pieces, table) == getattr(whole, table)
    assert sum(whole.seen.values()) == sum(len(text) - length for length in whole.lengths)


def _pieces(text: str, ends: Sequence[int]) -> list[str]:
    bounds = [0, *ends, len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def test_bits_per_character_count_every_character() -> None:
    """Models of any order are compared on the same characters; an untrained one spends log2(alphabet) on each."""
    for order in (1, 3, 5):
        assert train.NgramModel(order, "witten-bell", 8).bits_per_character("abcabc") == pytest.approx(3.0)
    model = train.NgramModel(1, "add", 2, k=1.0)
    model.learn("aaa")
    assert model.bits_per_character("ab") == pytest.approx((math.log2(5 / 4) + math.log2(5)) / 2)
