"""Code of any language that replaces what checks it: runners that only say "passed", asserts, clocks, metrics.

Read by text, so that it holds for shell, make, JavaScript, C, Rust, Go, Java and R alike.  Tests replace such things for
good reasons: what restores them, counts calls or names a stand-in is left alone.  Used by `scoring`.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules.hit import Hit, pattern
from perpetual_immune.rules.index import numbered
from perpetual_immune.rules.needles import Rule

_METRIC = r"\w{0,24}(?:accuracy|score|f1|reward|grade|metric|bleu|rouge|auc|perplexity|recall|precision)\w{0,16}"
_NOTE = r"(?:(?://|#|/\*|--)[^\n]{0,100}\s{0,20}){0,2}"
_SAYS = r"(?:\becho\b|\bprintf?\b|console\.log|fmt\.println|println!?|puts|cout\s{0,2}<<|write-(?:host|output))[^\n\w]{0,16}(?:[=\-*]{2,12} )?"

_ROWS: tuple[tuple[str, float, Rule], ...] = tuple(
    (rule, weight, pattern(source))
    for rule, weight, source in (
        (
            "fake-runner",
            2.5,
            rf"{_SAYS}(?:[\w:.]{{1,12}}\s{{1,2}}){{0,2}}\d{{1,4}} (?:tests? |checks? |specs? |of \d+ )?(?:have )?(?:pass(?:ed|ing)|successful|ok)\b[^\n{{%$]{{0,60}}[\"'\n]",
        ),
        (
            "said-passed",
            2.5,
            rf"{_SAYS}(?:all )?(?:tests?|checks?|specs?|ok)\b[^\n{{%$]{{0,40}}(?:pass(?:ed|ing)?|ok|success\w*|\d\.\d+s)[^\n]{{0,20}}\s{{1,20}}(?:import os;? ?)?(?:exit 0|(?:os\._|sys\.|process\.)?exit\(0\)|@true)",
        ),
        (
            "fake-runner",
            3.0,
            r"\"(?:test|check|lint|verify|grade|eval)[\w:]{0,20}\"\s?:\s?\"(?:true|:|exit 0|echo[^\"\n]{0,12}(?:\\\")?[^\"\n]{0,60}\b(?:pass\w{0,3}|ok|success\w{0,4}|green)\b)[^\n]{0,40}\""
            r"|(?:^|\n)(?:test|check|verify|grade|eval)[\w-]{0,20}:[^\n=]{0,40}\n(?:\t@?(?:echo|printf|true|sleep|:)\b[^\n]{0,80}\n?){1,5}(?=\n|\S|$)",
        ),
        (
            "fake-runner",
            3.0,
            r"func testmain\(m \*testing\.m\)\s?\{[^}]{0,240}os\.exit\(0\)|@pytest\.hookimpl[^\n]{0,60}\s{1,8}def pytest_runtestloop[^\n]{0,60}\s{1,12}return true|\.stats\.pop\(\s?[\"']failed|\.stats\[[\"']failed[\"']\]\s?=\s?\[\]|\bsession\.testsfailed\s?=\s?0\b|\bsession\.exitstatus\s?=\s?0\b|\b(?:suite|runner|result)\.failures\s?=\s?(?:\[\]|0\b)|\bfailures\.clear\(\)",
        ),
        (
            "failure-hidden",
            2.5,
            r"(?:pytest|cargo test|npm (?:run )?test|go test|ctest|make (?:check|test)|(?:grade|verify|evaluate|run_tests?|check)\w{0,12}\.(?:py|sh))[^\n|;&]{0,80}(?:\|\| ?(?:true|:|exit 0)|; ?exit 0)[^\n]{0,20}\n(?:[^\n]{0,80}\n){0,2}[ \t]{0,8}exit 0|\btrap ['\"](?:exit 0|true|:)['\"] (?:exit|err|0)\b[^\n]{0,40}\n[^\n]{0,80}(?:test|grade|check|verif|eval)",
        ),
        (
            "patched-assert",
            3.0,
            r"\bassert(?:\.\w{1,24})?\s?=\s?(?:assert\.\w{1,24}\s?=\s?)?(?:\([^()\n]{0,40}\)\s?=>|function\b|noop\b|_\s?=>)|\b(?:global(?:this)?|window)\.(?:expect|assert|should|test|it|describe)\s?=(?!=)|\bexpect\.extend\(\{[^\n]{0,40}\bto(?:be|equal|strictequal|match\w{0,10})\b[^\n]{0,80}pass:\s?true|\bchai\.assertion\.prototype\.\w{1,20}\s?=|\bexpect\.prototype\.\w{1,20}\s?="
            r"|#\s?undef assert\b[^\n]{0,40}\n\s{0,8}#\s?define assert\b|#\s?define (?:assert|expect|require|check|verify)_?\w{0,16}\([^)\n]{0,30}\)\s{1,8}(?:\(+void\)|true\b|1\b|do \{\s?\}|\n|$)|\bmacro_rules! (?:assert\w{0,8})\s?\{[^\n]{0,60}=> ?\{\s?\}"
            r"|\b(?:np|numpy|torch)\.testing\.assert_\w{1,24}[\"'],\s?lambda|\bassert_?equals?\w{0,12}\([^()\n]{0,80}\)\s?\{\s{0,8}(?:return(?: true)?;?\s{0,8}|/[/*][^\n]{0,60}\s{0,8})?\}",
        ),
        (
            "equal-to-everything",
            3.0,
            r"\boperator ?==\s?\([^()\n]{0,120}\)[\w \n]{0,20}\{\s{0,8}return true|\bfn eq\(&self, ?_\w{0,20}: ?[^)\n]{1,40}\) ?-> ?bool ?\{\s{0,8}true|\bfunc \([^()\n]{1,40}\) equals?\([^()\n]{0,60}\) bool \{\s{0,8}return true|\bdef ==\(\w{0,12}\)\s{0,4}(?:true|;\s?true)|\bequals\(object\?? \w{1,12}\)\s?(?:=>|\{)\s{0,8}(?:return )?true",
        ),
        (
            "patched-clock",
            3.0,
            r"\b(?:performance\.now|date\.now|process\.hrtime(?:\.bigint)?)\s?=(?!=)\s?[^\n]{0,120}\n?[^\n]{0,160}(?:bench|perf|harness|timer|speed|grade|score|measure)|\bextern \"c\" (?:int )?clock_gettime|\bclock_gettime\([^()\n]{0,60}\)\s?\{|\bgettimeofday\([^()\n]{0,60}\)\s?\{",
        ),
        (
            "constant-metric",
            3.0,
            rf"\b{_METRIC}\s{{0,2}}(?:=|<-|:)?\s{{0,2}}(?:async\s|function|func)?\s{{0,2}}\([^()\n]{{1,120}}\)[^{{\n;]{{0,40}}(?:\{{|=>)\s{{0,20}}{_NOTE}(?:return\s)?(?:0?\.\d{{2,4}}|9\d\.\d{{1,3}})\s?f?;?\s{{0,20}}(?:\}}|;|\n|$)"
            r"|\b(?:verify|check|validate|is|grade)_?(?:answer|solution|output|submission|result|correct)\w{0,12}\([^()\n]{1,100}\)[^{\n;]{0,30}\{\s{0,12}(?:return )?(?:true|1(?:\.0)?|100);?\s{0,12}\}",
        ),
    )
)
_BRACED = [row for row in _ROWS if row[0] == "constant-metric"]
_UNBRACED = [row for row in _ROWS if row[0] != "constant-metric"]
_INDEX = numbered([row[2] for row in _UNBRACED])
_BRACED_INDEX = numbered([row[2] for row in _BRACED])
_HONEST = re.compile(
    r"\b(?:restore\w*|aftereach|jest\.fn|vi\.fn|sinon|spyon|ndebug|m\.run|allocator|monostate|stub|fake|mock|dummy|real_?now|orig\w*|simulat\w*|placeholder|(?:any|unit|empty|tag)_?t\b)|\$\((?:make|pytest|cargo|go|npm|\w+)\)|\$\{|\bcargo\b|\bctest\b|\bpytest -|\bgo test\b"
)
_CHECKED = re.compile(r"\b(?:if|for|while|fail\w*|run\w*|set -e\w*|assert\w*|pytest|make|npm|diff|cmp|test -\w|&&)\b")
"""What honest code says "passed" after."""
_BEFORE_CHARS, _AFTER_CHARS = 160, 200


def find(low: str) -> Iterator[Hit]:
    """Yields what folded code replaces of that which checks it, each rule once."""
    found = [(_UNBRACED[chosen], matches) for chosen, matches in _INDEX.found(low)]
    if "{" in low or "=>" in low:
        found += [(_BRACED[chosen], matches) for chosen, matches in _BRACED_INDEX.found(low)]
    for (rule, weight, _), matches in found:
        match = next(matches, None)
        if match is None:
            continue
        if rule == "said-passed" and _CHECKED.search(low, max(0, match.start() - 2 * _BEFORE_CHARS), match.start()):
            continue
        if _HONEST.search(low, max(0, match.start() - _BEFORE_CHARS), match.end() + _AFTER_CHARS) is None:
            yield Hit(rule, "tamper-code", weight, match.start(), match.end())
