"""Words of notes on research: which say nothing, which mean the same, and which take a side. English alone."""

from __future__ import annotations

__all__ = ["COMPARISONS", "LIGHT", "LIGHT_ENDS", "MEANINGS", "NEGATIONS", "NUMBERS", "PHRASES", "SIDES", "STOP"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP = _words("""
    a about across after again all already also an away and any are as at be been before being both but by can
    clearly could did do does done during each either even ever every few for from further gave get gets give
    gives got had has have here how i if in indeed into is it its itself just least let lets made make makes
    making may me might more most much must my need note of off often on once one ones only onto or other our
    out over own per quite rather really said same saw say says shall she should simply since single so some
    still such than that the their them then there these they this those through to too under until up upon us
    very was we were what when whenever where whether which while will with within would yet you your
""")
NUMBERS = {
    "zero": 0.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0, "eight": 8.0,
    "nine": 9.0, "ten": 10.0, "eleven": 11.0, "twelve": 12.0, "half": 0.5, "quarter": 0.25, "third": 0.333,
}  # fmt: skip
PHRASES = (
    ("learning rate", "lr"), ("warm up", "warmup"), ("warm-up", "warmup"), ("out of memory", "oom"),
    ("data set", "dataset"), ("pre-training", "pretraining"), ("pre training", "pretraining"),
    ("mixed precision", "amp"), ("half precision", "amp"), ("blow up", "diverge"), ("blows up", "diverge"),
    ("blowing up", "diverge"), ("blew up", "diverge"), ("speed up", "faster"), ("speeds up", "faster"),
    ("sped up", "faster"), ("twice as fast", "faster 2"), ("in half", "halves"), ("pays off", "useful"),
    ("pay off", "useful"), ("come from", "cause"), ("comes from", "cause"), ("came from", "cause"),
    ("less than", "below"), ("fewer than", "below"), ("more than", "above"), ("as soon as", "once"),
    ("percent", " "), ("%", " "), ("has to", "must"), ("have to", "must"), ("goes oom", "oom"), ("runs oom", "oom"),
    ("run oom", "oom"), ("ran oom", "oom"), ("in short", " "),
)  # fmt: skip
# Words of one meaning; the first one of a line means all of them.
MEANINGS = [line.split() for line in """
    use apply employ adopt utilise
    show demonstrate indicate reveal suggest find found observe
    model network net
    accuracy acc
    validation val dev
    dataset data corpus corpora
    gpu card accelerator
    step iteration iter
    first initial initially
    select pick choose chosen
    need require must necessary
    cause lead produce result yield
    weight parameter param
    gradient grad
    clip cap clamp
    example sample
    synthetic generated artificial
    remove prune omit skip delete
    add include insert append
    change alter modify
    stop prevent avoid
    best optimal
    test tested eval evaluation evaluate
    enough suffice sufficient
    corrupt broken damaged
    sort order
    floor minimum min
    mix mixture blend
    stage phase
    smooth noise noisy
    standard normal standardise normalise
    freeze lock fixed
    combine pair
    exceed above
    double twice
    halve halves
    lower reduce decrease cut
    raise increase
    big large
    small little tiny
    throughput speed
    memory ram vram
    unchanged same identical
""".strip().splitlines()]  # fmt: skip
# Sides that a text may take: a word of the one part against a word of the other.
SIDES = [(_words(one), _words(other)) for one, other in (
    ("help helps helped improve improves improved better benefit benefits useful works work worked beat beats "
     "outperform outperforms stable converge converges converged supported holds succeed succeeds superior enough "
     "suffices",
     "hurt hurts hurting worse worsen worsens fail fails failed diverge diverges diverged divergence explode explodes "
     "crash crashes degrade degrades damage damages useless refuted breaks broke unstable inferior suffer suffers "
     "harms harm"),
    ("raise raises raised higher increase increases increased larger grow grows more above",
     "lower lowers lowered reduce reduces reduced decrease decreases decreased smaller shrink shrinks less fewer below "
     "cut cuts"),
    ("faster quicker", "slower slow slows"),
    ("longer", "shorter"),
    ("before", "after"),
    ("early earlier", "late later"),
    ("unchanged same", "change changes changed alter alters altered different differs"),
)]  # fmt: skip
NEGATIONS = _words("not no never cannot without nor neither none nothing")
COMPARISONS = _words("than beat beats outperform outperforms over versus vs")
# Verbs and adverbs, by their ends and by name: another one in their place makes no other subject.
LIGHT_ENDS = ("ing", "ed", "ly")
LIGHT = _words("""
    come comes cost costs go goes hold holds keep keeps lead leads leave leaves left need run runs seem seems
    set sets start starts stay stays take takes turn turns want wants
    allow allows avoid avoids cause causes cure cures depend depends drop drops eliminate eliminates explain explains
    fix fixes follow follows gain gains learn learns lose loses matter matters mean means move moves prevent prevents
    reach reaches remove removes require requires save saves shift shifts skip skips solve solves spend spends
    stop stops suppress suppresses tame tames use uses waste wastes yield yields
""")
