"""Trains a character n-gram language model on Python's own documentation and says how well it predicts unseen text.

The demo copies this file into the user's project, where it is run as `python train.py --order 5 --seed 1`. It needs
nothing but the standard library and knows nothing of Perpetual, except for four conventions that any training script
can follow: it takes its seed from PERPETUAL_SEED and its options from the JSON file PERPETUAL_CONFIG, appends its
progress to the JSON-lines file PERPETUAL_METRICS, and prints its results as `name: value`.

Text: the topics of `pydoc_data.topics`, which `help()` reads, so other Python versions give somewhat other numbers.
Smoothing: add-k; interpolated Witten-Bell and interpolated absolute discounting as in Chen and Goodman, "An empirical
study of smoothing techniques for language modeling" (1996), with the uniform distribution below the single characters.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics

SMOOTHINGS = ("add", "witten-bell", "discount")
HELD_OUT_EVERY = 12  # every 12th passage is never trained on
HELD_OUT_CHARS = 20_000
TABLE_CHARS = 1_200  # a longer block is a table: one of them would be a good part of a small training text
PASSAGE_CHARS = 600  # shorter blocks (headings, one-line examples) are joined with what follows them
CHECKPOINTS = 2  # evaluations in a run, the last one on the whole training text


def read_passages() -> list[str]:
    """The documentation as passages in a fixed order, each once, one line a paragraph.

    Many paragraphs stand under several topics. Repeated passages are dropped, or held-out text would be trained on.
    """
    passages = []
    for topic in sorted(topics):
        passage = ""
        for block in topics[topic].split("\n\n"):
            paragraph = " ".join(block.split())
            if paragraph and len(block) <= TABLE_CHARS:
                passage += paragraph + "\n"
            if len(passage) >= PASSAGE_CHARS:
                passages.append(passage)
                passage = ""
        if passage:
            passages.append(passage)
    return list(dict.fromkeys(passages))


def split_passages(passages: Sequence[str], seed: int) -> tuple[str, str]:
    """The training text and the held-out text. The seed orders the first and leaves the second alone.

    All runs are thus measured on the same characters: what differs between seeds is what was learnt from.
    """
    held_out = "".join(passages[::HELD_OUT_EVERY])[:HELD_OUT_CHARS]
    training = [passage for index, passage in enumerate(passages) if index % HELD_OUT_EVERY]
    random.Random(seed).shuffle(training)
    return "".join(training), held_out


class NgramModel:
    """The probability of a character after the `order - 1` characters before it.

    `smoothing` is one of SMOOTHINGS, of which add uses `k` and discount uses `discount`. The uniform distribution that
    it all falls back on has `alphabet_size` characters: take those of all the text, so that models trained on
    different parts of it divide their probability among the same characters.
    """

    def __init__(self, order: int, smoothing: str, alphabet_size: int, k: float = 0.01, discount: float = 0.75) -> None:
        self.order = order
        self.smoothing = smoothing
        self.alphabet_size = alphabet_size
        self.k = k
        self.discount = discount
        # Add-k knows one context length; the others mix all of them, from none to order - 1 characters.
        self.lengths = [order - 1] if smoothing == "add" else list(range(order))
        self.seen: Counter[str] = Counter()  # how often each context with its next character came
        self.total: defaultdict[str, int] = defaultdict(int)  # how often each context came
        self.kinds: defaultdict[str, int] = defaultdict(int)  # how many different characters came after it

    def learn(self, text: str, start: int = 0) -> None:
        """Counts the characters of `text` from `start` on, each after its context, which may reach back before."""
        for length in self.lengths:
            first = max(start - length, 0)
            new = Counter(text[index : index + length + 1] for index in range(first, len(text) - length))
            for gram, count in new.items():
                context = gram[:-1]
                self.total[context] += count
                self.kinds[context] += gram not in self.seen
            self.seen.update(new)

    def probability(self, context: str, character: str) -> float:
        """Of `character` after `context`, of which the last `order - 1` characters count. Sums to 1 over the alphabet."""
        if self.smoothing == "add":
            context = context[len(context) - self.order + 1 :] if len(context) >= self.order else context
            return self._add_k(context, character)
        probability = 1.0 / self.alphabet_size
        for length in range(min(self.order, len(context) + 1)):
            suffix = context[len(context) - length :]
            total = self.total.get(suffix, 0)
            if not total:
                break  # no longer context can have been seen either
            count, kinds = self.seen.get(suffix + character, 0), self.kinds[suffix]
            if self.smoothing == "witten-bell":
                probability = (count + kinds * probability) / (total + kinds)
            else:
                kept = max(count - self.discount, 0.0)
                probability = (kept + self.discount * kinds * probability) / total
        return probability

    def _add_k(self, context: str, character: str) -> float:
        count, total = self.seen.get(context + character, 0), self.total.get(context, 0)
        return (count + self.k) / (total + self.k * self.alphabet_size)

    def bits_per_character(self, text: str) -> float:
        """The cross-entropy of `text` under the model. Its first `order - 1` characters are only context."""
        reach = self.order - 1
        bits = sum(
            -math.log2(self.probability(text[index - reach : index], text[index])) for index in range(reach, len(text))
        )
        return bits / (len(text) - reach)
