"""What the models of an agent and of its forks cost, under one set of limits, and in the lab's caps of a day.

Before a request its worst case is booked; once there is a reply, what it says counts instead. A request whose reply
never came stays booked: the provider may have charged for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, cast

from perpetual.api import NotFound, Refused
from perpetual_agents.data import LIMITS
from perpetual_agents.names import ACCOUNT, AGENT

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Account", "LimitReached", "book", "new", "of", "read", "set_limits", "settle", "took"]

_UNITS = {"calls": "calls", "tokens": "tokens", "usd": "USD", "seconds": "seconds"}


class LimitReached(Refused):
    """A limit of an agent, or one of the project's day, does not hold what a request may use."""

    code = "agent_limit"


class Account(TypedDict):
    """An account: `limits` that are set, what was `used`, and what requests that go on may use (`booked`)."""

    id: str | None
    limits: dict[str, float]
    used: dict[str, float]
    booked: dict[str, float]


def new(lab: Lab, limits: Mapping[str, float]) -> str:
    """Makes an account with limits; returns its id."""
    return lab.records(ACCOUNT).add(limits=dict(limits), used=dict.fromkeys(LIMITS, 0), booked={}).id


def of(lab: Lab, agent: str) -> str:
    """Returns the id of an agent's account, which is made where there is none yet."""
    found: str | None = lab.records(AGENT).get(agent)["account"]
    if found is not None:
        return found
    with lab.transaction():
        found = lab.records(AGENT).get(agent)["account"]
        if found is None:
            found = new(lab, {})
            lab.records(AGENT).update(agent, account=found)
    return found


def read(lab: Lab, account: str | None) -> Account:
    """Returns an account; None is one that was not used yet."""
    if account is None:
        nothing = dict.fromkeys(LIMITS, 0.0)
        return {"id": None, "limits": {}, "used": nothing, "booked": {**nothing}}
    found = lab.records(ACCOUNT).get(account)
    booked = dict.fromkeys(LIMITS, 0.0)
    for uses in found["booked"].values():
        for name, amount in uses.items():
            booked[name] += amount
    return {"id": found.id, "limits": found["limits"], "used": {**dict.fromkeys(LIMITS, 0), **found["used"]},
            "booked": booked}  # fmt: skip


def set_limits(lab: Lab, account: str, limits: Mapping[str, float]) -> None:
    """Replaces the limits of an account."""
    lab.records(ACCOUNT).update(account, limits=dict(limits))


def book(lab: Lab, agent: str, account: str, key: str, uses: Mapping[str, float]) -> Mapping[str, float]:
    """Books what a request may use at most, under its key, once.

    Seconds are booked where they have a limit, at most those that are left: the request is to end within them.

    Args:
        uses: amounts of calls, tokens, usd and seconds.

    Returns:
        What is booked.

    Raises:
        LimitReached: where less is left.
    """
    with lab.transaction():
        found = lab.records(ACCOUNT).get(account)
        if key in found["booked"]:
            return cast("Mapping[str, float]", found["booked"][key])
        now = read(lab, account)
        amounts = {name: amount for name, amount in uses.items() if name != "seconds"}
        for name, amount in uses.items():
            limit = now["limits"].get(name)
            taken = now["used"].get(name, 0.0) + now["booked"].get(name, 0.0)
            if limit is not None and name == "seconds" and taken < limit:
                amounts[name] = min(amount, limit - taken)
                continue
            if limit is not None and taken + amount > limit:
                raise LimitReached(
                    f"{agent} has {max(0.0, limit - taken):g} of {limit:g} {_UNITS[name]} left, and a request may use "
                    f"{amount:g}",
                    hint=f"perpetual agent limit {agent} --{name} N, then: perpetual agent resume {agent}",
                )  # fmt: skip
        lab.records(ACCOUNT).update(account, booked={**found["booked"], key: amounts})
        try:
            lab.budget.debit(f"agents/{key}", {name: uses[name] for name in ("calls", "tokens", "usd") if name in uses})
        except Refused as problem:
            raise LimitReached(problem.message, hint=problem.hint, code="budget_of_day") from problem
        return amounts


def took(lab: Lab, account: str, key: str, seconds: float) -> None:
    """Replaces the seconds that are booked for a request that had no reply by those that it took."""
    with lab.transaction():
        found = lab.records(ACCOUNT).get(account)
        uses: dict[str, float] = found["booked"].get(key, {})
        if "seconds" in uses:
            booked = {**found["booked"], key: {**uses, "seconds": min(seconds, uses["seconds"])}}
            lab.records(ACCOUNT).update(account, booked=booked)


def settle(lab: Lab, account: str, key: str, used: Mapping[str, float | None], seconds: float) -> None:
    """Replaces what was booked for a request by what it used; None leaves an amount as it was booked."""
    with lab.transaction():
        found = lab.records(ACCOUNT).get(account)
        booked: dict[str, float] | None = found["booked"].get(key)
        if booked is None:
            return
        amounts = {name: amount if (given := used.get(name)) is None else given for name, amount in booked.items()}
        amounts["seconds"] = seconds
        total = {name: found["used"].get(name, 0) + amounts.get(name, 0) for name in LIMITS}
        rest = {name: uses for name, uses in found["booked"].items() if name != key}
        lab.records(ACCOUNT).update(account, used=total, booked=rest)
        try:
            lab.budget.reconcile(f"agents/{key}", {name: amounts[name] for name in ("calls", "tokens", "usd")
                                                   if name in amounts})  # fmt: skip
        except NotFound:
            return  # it was booked in a project that this one was moved from
