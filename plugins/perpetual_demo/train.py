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
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics

SMOOTHINGS = ("add", "witten-bell", "discount")
HELD_OUT_EVERY = 12  # one passage in so many is never trained on
HELD_OUT_CHARS = 20_000
PARAGRAPH_CHARS = 1_200  # a longer one is a table or a grammar, and would be a good part of a small training text
PASSAGE_CHARS = 1_000  # paragraphs of a topic are joined until a passage has as much
CHECKPOINTS = 2  # evaluations in a run, the last one on the whole training text


def read_passages() -> list[str]:
    """Returns the documentation as passages in a fixed order, one line a paragraph.

    Many paragraphs stand under several topics. Each is taken once, or held-out text would be trained on.
    """
    passages = []
    known = set()
    for topic in sorted(topics):
        passage = ""
        for block in topics[topic].split("\n\n"):
            paragraph = " ".join(block.split())
            if paragraph in known or not 0 < len(paragraph) <= PARAGRAPH_CHARS:
                continue
            known.add(paragraph)
            passage += paragraph + "\n"
            if len(passage) >= PASSAGE_CHARS:
                passages.append(passage)
                passage = ""
        if passage:
            passages.append(passage)
    return passages


def split_passages(passages: Sequence[str], seed: int) -> tuple[str, str]:
    """Returns the training text and the held-out text. The seed orders the first and leaves the second alone.

    All runs are thus measured on the same characters: what differs between seeds is what was learnt from. A passage's
    own checksum says where it belongs, so what another Python version adds to the topics does not move the rest.
    """
    training: list[str] = []
    held_out: list[str] = []
    for passage in passages:
        kept_back = zlib.crc32(passage.encode("utf-8")) % HELD_OUT_EVERY == 0
        (held_out if kept_back else training).append(passage)
    random.Random(seed).shuffle(training)
    return "".join(training), "".join(held_out)[:HELD_OUT_CHARS]


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
        self.tail = ""  # the end of what was learnt, the context of what comes next

    def learn(self, text: str) -> None:
        """Counts the characters of `text`, which goes on where the text of the last call ended."""
        joined = self.tail + text
        for length in self.lengths:
            first = max(len(self.tail) - length, 0)
            new = Counter(joined[index : index + length + 1] for index in range(first, len(joined) - length))
            for gram, count in new.items():
                context = gram[:-1]
                self.total[context] += count
                self.kinds[context] += gram not in self.seen
            self.seen.update(new)
        self.tail = self._context(joined, len(joined))

    def _context(self, text: str, index: int) -> str:
        """Returns what the model may look at when it predicts `text[index]`."""
        return text[max(index - self.order + 1, 0) : index]

    def probability(self, context: str, character: str) -> float:
        """Returns the probability of `character` after at most `order - 1` characters. Sums to 1 over the alphabet."""
        if self.smoothing == "add":
            count, total = self.seen.get(context + character, 0), self.total.get(context, 0)
            return (count + self.k) / (total + self.k * self.alphabet_size)
        probability = 1.0 / self.alphabet_size
        for length in range(len(context) + 1):
            suffix = context[len(context) - length :]
            total = self.total.get(suffix, 0)
            if not total:
                break  # then no longer context was seen either
            count, kinds = self.seen.get(suffix + character, 0), self.kinds[suffix]
            if self.smoothing == "witten-bell":
                probability = (count + kinds * probability) / (total + kinds)
            else:
                probability = (max(count - self.discount, 0.0) + self.discount * kinds * probability) / total
        return probability

    def bits_per_character(self, text: str) -> float:
        """Returns the cross-entropy of `text` under the model, over all its characters whatever the order."""
        context, probability = self._context, self.probability
        bits = (-math.log2(probability(context(text, index), character)) for index, character in enumerate(text))
        return math.fsum(bits) / len(text)


def log(**values: float) -> None:
    """Appends a JSON line to the file that PERPETUAL_METRICS names, if it names one."""
    path = os.environ.get("PERPETUAL_METRICS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def whole_number(text: str) -> int:
    """Parses a whole number from 1, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def seed_number(text: str) -> int:
    """Parses a whole number from 0, for argparse: `random` takes a negative seed for its positive twin."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number


def positive(text: str) -> float:
    """Parses a finite number above 0, for argparse."""
    number = float(text)
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


def fraction(text: str) -> float:
    """Parses a number between 0 and 1, for argparse."""
    number = float(text)
    if not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def make_parser() -> argparse.ArgumentParser:
    """Returns the options. A default that is text is checked like an argument, which serves the seed."""
    parser = argparse.ArgumentParser(
        prog="train.py",
        description="Train a character n-gram model and print its bits per character on held-out text.",
        epilog="Options may also stand in the JSON file that PERPETUAL_CONFIG names; the command line wins.",
        allow_abbrev=False,
    )
    parser.add_argument("--order", type=whole_number, default=3, help="length of the n-grams (3)")
    parser.add_argument("--smoothing", choices=SMOOTHINGS, default="witten-bell", help="(witten-bell)")
    parser.add_argument("--k", type=positive, default=0.01, help="what `add` adds to every count (0.01)")
    parser.add_argument("--discount", type=fraction, default=0.75, help="what `discount` takes off (0.75)")
    parser.add_argument("--chars", type=whole_number, default=80_000, help="length of the training text (80000)")
    seed = os.environ.get("PERPETUAL_SEED") or "0"
    parser.add_argument(
        "--seed", type=seed_number, default=seed, help="orders the training text (PERPETUAL_SEED, else 0)"
    )
    return parser


def configured(parser: argparse.ArgumentParser) -> list[str]:
    """Returns the options of the PERPETUAL_CONFIG file, written as arguments so that they are checked as such."""
    path = os.environ.get("PERPETUAL_CONFIG")
    if not path:
        return []
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"PERPETUAL_CONFIG: cannot read {path}: {error}")
    if not isinstance(config, dict):
        parser.error(f"PERPETUAL_CONFIG: {path} holds no JSON object")
    return [f"--{name}={value}" for name, value in config.items()]


def main(arguments: Sequence[str]) -> None:
    """Trains, evaluates at each checkpoint, prints the results. Ends the process with 2 for a bad option."""
    parser = make_parser()
    options = parser.parse_args([*configured(parser), *arguments])
    passages = read_passages()
    text, held_out = split_passages(passages, options.seed)
    if options.chars > len(text):
        parser.error(f"argument --chars: there are only {len(text)} characters to train on")
    model = NgramModel(options.order, options.smoothing, len(set("".join(passages))), options.k, options.discount)

    step, val_bpc = 0, math.nan
    for checkpoint in range(1, CHECKPOINTS + 1):
        reached = options.chars * checkpoint // CHECKPOINTS
        model.learn(text[step:reached])
        step, val_bpc = reached, round(model.bits_per_character(held_out), 6)
        log(step=step, val_bpc=val_bpc)

    print(f"val_bpc: {val_bpc:.6f}")
    print(f"train_chars: {step}")
    print(f"ngrams: {len(model.seen)}")


if __name__ == "__main__":
    main(sys.argv[1:])
