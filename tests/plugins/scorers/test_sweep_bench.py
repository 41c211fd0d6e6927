"""The bench of sweeps: the same for all policies, and what it is to show."""

from __future__ import annotations

import pytest

from perpetual_scorers.sweep_bench import POLICIES, WORLDS, bench, main, play


def test_the_same_seed_plays_the_same() -> None:
    for name, policy in POLICIES.items():
        once = play("wave-2d", policy, [8, 12], seed=1, number=0)
        assert play("wave-2d", policy, [8, 12], seed=1, number=0) == once, name
        assert len(once) == 2
        assert all(regret >= 0 for regret in once)


@pytest.mark.slow
def test_the_default_loses_less_than_round_robin() -> None:
    """Over all worlds, 5 sweeps of each; `make bench-science` has the figures."""
    policies = {name: POLICIES[name] for name in ("round robin", "GP knowledge gradient")}
    rows = {row.policy: row for row in bench(policies, budgets=[16], sweeps=5, seed=3) if row.world == "all"}
    assert rows["GP knowledge gradient"].regret < rows["round robin"].regret
    for row in rows.values():
        assert row.low <= row.regret <= row.high


def test_rungs_buy_more_settings() -> None:
    """Round robin cannot even start each setting with eight full runs; halving looks at all of them."""
    policies = {name: POLICIES[name] for name in ("round robin", "successive halving")}
    rows = bench(policies, worlds=["chaos"], budgets=[8], sweeps=20, seed=1)
    known = {row.policy: row.regret for row in rows}
    assert known["successive halving"] < known["round robin"]


def test_the_table_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["sweep_bench", "--sweeps", "1", "--runs", "3,4", "--worlds", WORLDS[0]])
    main()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "| world | policy | 3 runs | 4 runs |"
    assert len(said) == 2 + len(POLICIES)
