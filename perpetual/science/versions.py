"""Versions of what runs were made of: code, data, environment. Runs of different versions are not pooled.

A version is `{code: {tree, ignored, programs} | None, data, environment}`, as far as it is known. What is unknown
differs from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = [
    "ASPECTS", "RENEW", "Match", "Sample", "baseline_to_renew", "declared", "is_stale", "matched", "nearest",
    "samples_of", "unlike",
]  # fmt: skip

ASPECTS = ("code", "data", "environment")

_STALE = "stale"
RENEW = "perpetual rebaseline "  # what a stale claim waits for, in its caution

T = TypeVar("T")
B = TypeVar("B")


def unlike(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> list[str]:
    """Returns the aspects in which two versions are known to differ."""
    if not one or not other:
        return []
    differing = ["code"] if _is_other_code(one.get("code"), other.get("code")) else []
    mine, theirs = one.get("data"), other.get("data")
    # Under other patterns it is not the same files that were looked at.
    if mine and theirs and mine != theirs and mine.partition(":")[0] == theirs.partition(":")[0]:
        differing.append("data")
    mine, theirs = one.get("environment"), other.get("environment")
    return [*differing, "environment"] if mine and theirs and mine != theirs else differing


def _is_other_code(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    if not one or not other:
        return False
    # A program that only one of the two commands names is part of what they specify.
    if any(other["programs"].get(path, digest) != digest for path, digest in one["programs"].items()):
        return True
    known = one["tree"] and other["tree"] and one["ignored"] == other["ignored"]
    return bool(known and one["tree"] != other["tree"])


def is_stale(cautions: Iterable[str]) -> bool:
    """Returns whether one of the sentences beside a confidence is about runs of different versions."""
    return any(text.startswith(_STALE) for text in cautions)


def baseline_to_renew(cautions: Iterable[str]) -> str | None:
    """Returns the baseline that these sentences say is to be run anew; None if they name none."""
    named = (text.partition(RENEW)[2].split() for text in cautions if text.startswith(_STALE) and RENEW in text)
    return next((words[0] for words in named if words), None)


class Sample(NamedTuple, Generic[T]):
    """Things of one version, which may be pooled."""

    version: Mapping[str, Any]
    items: list[T]


def samples_of(items: Iterable[tuple[Mapping[str, object] | None, T]]) -> list[Sample[T]]:
    """Returns the items by version, in the order in which the versions came; an unknown one joins the first."""
    samples: list[Sample[T]] = []
    for version, item in items:
        place = next((n for n, sample in enumerate(samples) if not unlike(sample.version, version)), None)
        if place is None:
            samples.append(Sample(dict(version or {}), [item]))
        else:
            samples[place] = Sample(_joined(samples[place].version, version), [*samples[place].items, item])
    return samples


def _joined(one: Mapping[str, object], other: Mapping[str, object] | None) -> dict[str, object]:
    """Returns what is known of either of two versions that do not differ."""
    return {name: one.get(name) or (other or {}).get(name) for name in ASPECTS}


def declared(changes: str | None) -> list[str]:
    """Returns the aspects that a design declares to be its treatment."""
    return changes.split(",") if changes else []


def nearest(samples: Sequence[Sample[T]], version: Mapping[str, object] | None, but: Iterable[str]) -> Sample[T]:
    """Returns the sample to compare a version with: the one that differs least, then the largest, then the newest.

    Args:
        but: aspects whose difference is the treatment; samples that differ in them come before those that do not.
    """
    meant, ranked = {*but}, []
    for place, sample in enumerate(samples):
        differing = {*unlike(version, sample.version)}
        ranked.append((-len(differing - meant), len(differing & meant), len(sample.items), place))
    return samples[max(ranked)[3]]


class Match(NamedTuple, Generic[T, B]):
    """A sample and what it is compared with."""

    sample: Sample[T]
    baseline: Sample[B]
    stale: tuple[str, ...]  # aspects in which they differ, beyond what is declared
    counts: bool  # beside a comparison that is not stale, a stale one counts for nothing


def matched(own: Sequence[Sample[T]], others: Sequence[Sample[B]], but: Sequence[str]) -> list[Match[T, B]]:
    """Returns each sample with the baseline's sample that it is compared with.

    Args:
        own: the samples of a claim.
        others: those of its baseline, one at least.
        but: aspects whose difference is the treatment.
    """
    found = []
    for sample in own:
        chosen = nearest(others, sample.version, but)
        stale = tuple(name for name in unlike(sample.version, chosen.version) if name not in but)
        found.append(Match(sample, chosen, stale, True))
    if any(not match.stale for match in found):
        found = [match._replace(counts=not match.stale) for match in found]
    return found
