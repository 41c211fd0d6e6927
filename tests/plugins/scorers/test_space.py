"""The space of a sweep: what is read, drawn, and put into a command."""

from __future__ import annotations

import shlex
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perpetual.api import UsageError
from perpetual_scorers.space import MOST_SETTINGS, command_of, halton, parameters_of, settings_of

GIVEN = ["lr=log:1e-4..1e-1", "wd=0,0.01,0.1", "depth=2..8", "opt=sgd,adam,lion"]
WHEN = ["opt=sgd: momentum=0.8..0.99", "opt=adam,lion: beta=0.9,0.99"]


def values(
    method: str, *parameters: str, count: int | None = None, when: tuple[str, ...] = ()
) -> list[dict[str, object]]:
    found = settings_of(parameters_of(parameters, when), method, count, "key")
    assert [setting.id for setting in found] == [f"s{n}" for n in range(1, len(found) + 1)]
    return [{**setting.values} for setting in found]


# --- drawing ----------------------------------------------------------------------------------------------------------


def test_a_grid_takes_each_combination_once() -> None:
    assert values("grid", "a=1,2", "b=x,y") == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]
    assert [row["a"] for row in values("grid", "a=2..5")] == [2, 3, 4, 5]
    assert [row["a"] for row in values("grid", "a=log:1e-4..1e-1")] == [1e-4, 1e-3, 1e-2, 1e-1]
    assert [row["a"] for row in values("grid", "a=0.0..1/3")] == [0.0, 0.5, 1.0]
    assert [row["a"] for row in values("grid", "a=log:16..256/5")] == [16, 32, 64, 128, 256]
    assert [row["a"] for row in values("grid", "a=true,false")] == [True, False]


def test_a_condition_adds_its_parameter_where_it_holds() -> None:
    rows = values("grid", "opt=sgd,adam", "lr=0.1,0.2", when=("opt=sgd: momentum=0.8,0.9",))
    assert len(rows) == 2 * 2 + 2
    assert all(("momentum" in row) == (row["opt"] == "sgd") for row in rows)
    for method in ("random", "quasi"):
        for row in values(method, *GIVEN, count=40, when=tuple(WHEN)):
            assert ("momentum" in row) == (row["opt"] == "sgd")
            assert ("beta" in row) == (row["opt"] != "sgd")


@pytest.mark.parametrize("method", ["random", "quasi"])
def test_what_is_drawn_lies_in_its_range_and_follows_from_the_key(method: str) -> None:
    parameters = parameters_of(GIVEN)
    found = settings_of(parameters, method, 50, "key")
    assert len(found) == 50
    for setting in found:
        lr, depth = setting.values["lr"], setting.values["depth"]
        assert isinstance(lr, float)
        assert 1e-4 <= lr <= 1e-1
        assert isinstance(depth, int)
        assert 2 <= depth <= 8
        assert setting.values["wd"] in (0, 0.01, 0.1)
        assert len(setting.x) == 3 + 3  # one each, and one for each of three words
        assert all(0 <= number <= 1 for number in setting.x)
    assert settings_of(parameters, method, 50, "key") == found
    assert settings_of(parameters, method, 50, "other") != found


def test_fewer_settings_where_the_space_has_fewer() -> None:
    assert len(values("quasi", "a=1,2,3", "b=x,y", count=30)) == 6
    assert len(values("random", "a=1..4", count=30)) == 4


@given(st.integers(0, 10_000))
def test_the_sequence_fills_each_part_of_each_side(seed: int) -> None:
    points = [*islice(halton(3, Random(seed)), 2 * 3 * 5 * 4)]
    for axis, base in enumerate((2, 3, 5)):
        for count in (base, base**2):
            assert sorted(int(point[axis] * count) for point in points[:count]) == [*range(count)]
    assert all(0 <= number < 1 for point in points for number in point)


def test_it_fills_a_plane_more_evenly_than_lots() -> None:
    """The largest deviation of the share of points in boxes at the origin from their areas."""

    def discrepancy(points: list[list[float]]) -> float:
        return max(
            abs(sum(x < a and y < b for x, y in points) / len(points) - a * b)
            for a in (0.25, 0.5, 0.75, 1.0)
            for b in (0.25, 0.5, 0.75, 1.0)
        )

    rng = Random(5)
    even = sum(discrepancy([*islice(halton(2, Random(seed)), 36)]) for seed in range(20))
    lots = sum(discrepancy([[rng.random(), rng.random()] for _ in range(36)]) for _ in range(20))
    assert even < 0.6 * lots


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "when", "said"),
    [
        ([], [], "needs a parameter"),
        (["lr"], [], "'lr' is no parameter"),
        (["1r=1,2"], [], "is no parameter"),
        (["lr="], [], "is no parameter"),
        (["lr=1,,2"], [], "no range and no list"),
        (["lr=1,1"], [], "no range and no list"),
        (["lr=log:1,2"], [], "no range and no list"),
        (["lr=0.1..a"], [], "no range of numbers"),
        (["lr=0.2..0.1"], [], "a range rises"),
        (["lr=0..inf"], [], "finite"),
        (["lr=nan..1"], [], "finite"),
        (["lr=log:0..1"], [], "from above 0"),
        (["lr=0..1/0"], [], "levels"),
        (["lr=0..1", "lr=1,2"], [], "given twice"),
        (["rung=1,2"], [], "length of a short run"),
        (["a=1,2"], ["a=1"], "--when takes"),
        (["a=1,2"], ["a=1:"], "--when takes"),
        (["a=1,2"], ["b=1: c=1,2"], "unknown parameter 'b'"),
        (["a=1,2"], ["a=3: c=1,2"], "a has no choice 3"),
        (["a=0..1"], ["a=0.5: c=1,2"], "a has no choice 0.5"),
        (["a=1,2"], ["a=1: a=1,2"], "given twice"),
        ([f"p{n}=1,2" for n in range(21)], [], "at most 20"),
    ],
)
def test_an_error_names_what_is_wrong(parameters: list[str], when: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parameters_of(parameters, when)


def test_a_sweep_has_a_number_of_settings() -> None:
    for wrong in (0, 1, MOST_SETTINGS + 1):
        with pytest.raises(UsageError, match=f"not {wrong}"):
            values("quasi", "lr=0..1", count=wrong)
    with pytest.raises(UsageError, match="more than 500 settings"):
        values("grid", *(f"p{n}=0..1/10" for n in range(20)))
    with pytest.raises(UsageError, match="more than 3 settings"):
        values("grid", "a=1,2", "b=1,2", count=3)
    with pytest.raises(UsageError, match="nothing to search"):
        values("grid", "a=1")
    with pytest.raises(UsageError, match="unknown method 'gird'"):
        values("gird", "a=1,2")


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_holds_the_values() -> None:
    names = ["lr", "opt", "momentum", "nesterov"]
    template = "python train.py --lr {lr} --opt={opt} --momentum {momentum} --nesterov={nesterov} -v 'a b'"
    filled = command_of(template, names, {"lr": 0.01, "opt": "sgd", "momentum": 0.9, "nesterov": True}, None)
    assert filled == "python train.py --lr 0.01 --opt=sgd --momentum 0.9 --nesterov=true -v 'a b'"
    without = command_of(template, names, {"lr": 1e-05, "opt": "adam"}, None)
    assert without == "python train.py --lr 1e-05 --opt=adam -v 'a b'"
    assert command_of("t {lr} {rung}", ["lr"], {"lr": 2.0}, 9.0) == "t 2 9"
    assert command_of("sh -c 'echo {{x}} {lr}'", ["lr"], {"lr": 3}, None) == "sh -c 'echo {x} 3'"


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_a_value_stays_one_word(value: str) -> None:
    assert shlex.split(command_of("train --name {name}", ["name"], {"name": value}, None)) == ["train", "--name", value]


def test_a_name_that_is_no_parameter_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown parameter of the command 'lrr'"):
        command_of("train {lrr}", ["lr"], {"lr": 1}, None)
    with pytest.raises(UsageError, match="'rung'"):
        command_of("train {rung}", ["lr"], {"lr": 1}, None)
    with pytest.raises(UsageError, match="cannot be split"):
        command_of("train '{lr}", ["lr"], {"lr": 1}, None)
