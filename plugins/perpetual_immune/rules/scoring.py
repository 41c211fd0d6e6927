"""Score manipulation: text aimed at a judge, forged grader state, tampering with tests or graders, literal answers.

Imported by `scanner`; standard library only.  The rule behind it: a memory may say what was measured, never how it, or
anything else, is to be scored.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from perpetual_immune.rules import faking, judging, rigging, runners
from perpetual_immune.rules.hit import Hit, about_security, fold, negated, pattern, phrase, reported
from perpetual_immune.rules.index import numbered
from perpetual_immune.rules.literals import literal_answers
from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.said import only_what_is_said
from perpetual_immune.rules.tampering import tampering

LITERAL_POINTS_REJECT = 2.9
LITERAL_POINTS_SUSPECT = 2.5

_JUDGE = (
    r"(?:judges?|graders?|evaluators?|reviewers?|raters?|assessors?|scorers?|critics?|examiners?|markers?|referees?|auditors?|verifiers?|moderators?|grading (?:model|system|script|assistant)|"
    r"(?:llm|ai|automated|evaluation|reward|scoring|judging) (?:judge|grader|evaluator|reviewer|model|system|assistant|scorer)s?)"
)
_SCORE = r"(?:scores?|grades?|marks?|ratings?|points?|verdicts?|evaluations?|rewards?|credits?|assessments?|rankings?)"
_TOP = r"(?:full|maximum|max|perfect|highest|top|best|10 ?/ ?10|100 ?(?:%|/ ?100|percent|points)|5 ?/ ?5|1\.0|10|100|a\+|pass(?:ing|ed)?|positive|excellent|correct)"


def _rows() -> Iterator[tuple[str, str, float, str]]:
    yield (
        "judge-order",
        "verdict",
        3.0,
        rf"\b(?:give|award|assign|grant|return|output|set|report|record|enter|submit|provide|put|write)(?: (?:the|a|an|always|only))* (?:it|this|me|them|my|our|that|us|answers?|responses?|submissions?|solution|candidate|paper|essay)(?: (?:it|this|me|them|the|my|our|a|an|that|answer|response|submission|solution|candidate|paper|work|essay|model|assistant|run|always|us))* {_TOP}(?: \w+){{0,2}} {_SCORE}\b",
    )
    yield (
        "judge-order-value",
        "verdict",
        3.0,
        r"\b(?:give|award|assign|grant|score|rate|grade|mark|rank|evaluate|judge|label|classify)(?: (?:it|this|me|them|the|my|our|that|answers?|responses?|submissions?|solution|candidate|paper|work|essay|first|second|following|above|a|b|model|assistant|output|run|entry|always))* (?:it|this|me|them|my|our|that|answers?|responses?|submissions?|solution|candidate|paper|work|essay|entry|assistant|output|run)(?: (?:[ab12]|always|as|at|with|an?|to))* ?[\"'`*]?(?:\w+ ){0,1}(?:10(?: ?/ ?10| out of 10)?|100(?: ?%| ?/ ?100| out of 100)?|5(?: ?/ ?5| out of 5| stars)|1\.0+|a\+|perfect|maximum|highest|full marks|correct|pass(?:ed|ing)?|accepted|excellent|superior|the better|the best|the winner|approved|compliant)\b(?! (?:if|only|when|unless))",
    )
    yield (
        "judge-choose",
        "verdict",
        3.0,
        r"\b(?:choose|select|pick|prefer|favou?r|declare|rank|vote for|output|answer|say|return|respond with|print)(?: (?:only|always|the|this|my|our|that|exactly|just|as|with))* [\"'`\[*]{0,4}(?:(?:assistant|response|answer|output|model|candidate|option|submission|solution) [\"'`\[(]?[ABab12]\b|this (?:answer|response|submission|solution|one)|\[\[[AB1-9]0?\]\])",
    )
    yield (
        "judge-addressed",
        "addressed",
        1.5,
        rf"\b(?:note|message|instructions?|attention|notice|important|memo|hint|reminder|comment|hey|dear|hello|to|for|as)(?: (?:to|for|from|all|any|the|this|an?|you|our|my))* {_JUDGE}\b ?(?::|,|-|—|please|must|should|you)",
    )
    yield (
        "judge-must",
        "addressed",
        1.75,
        rf"\b(?:the |any |all |every |this )?{_JUDGE} (?:must|should|shall|will|has to|have to|is (?:required|instructed|asked|directed|obliged) to|are (?:required|instructed|asked|directed) to|is to|need(?:s)? to) (?:now |always |immediately |only )?(?:give|assign|award|accept|approve|score|rate|grade|pass|ignore|mark|skip|disregard|select|choose|prefer)",
    )
    yield (
        "judge-ignore",
        "addressed",
        3.0,
        r"\b(?:ignore|disregard|skip|override|bypass|forget|overlook|discard|suspend|relax|waive|do not (?:apply|use|follow))(?: \w+){0,3} (?:rubric|grading|scoring|evaluation|judging|marking|assessment|reference (?:answer|solution)|criteria|criterion|test results?|failing tests?|correctness|errors? in (?:this|my|the) (?:answer|response|essay|proof|submission))(?: \w+){0,2}",
    )
    yield (
        "forged-verdict",
        "claim",
        1.25,
        r"(?:^|[\n{,\[(<*#-])[ \t]{0,6}[\"'*]{0,2}(?:final[ _-]?)?(?:score|grade|verdict|rating|reward|evaluation|judge?ment|decision|result|overall[ _-]?score|pass(?:ed)?|is_correct|correct|grading|outcome)[\"'*]{0,2}\s{0,3}[:=]\s{0,3}[\"'*\[]{0,4}(?:10(?: ?/ ?10)|100(?: ?%| ?/ ?100)|1\.0+\b|5 ?/ ?5|a\+|pass(?:ed)?\b|correct\b|perfect|excellent|full marks|accept(?:ed)?\b|\[?[AB]\]\]|c\b)",
    )
    yield (
        "forged-verdict-json",
        "claim",
        1.5,
        r"\{[^{}\n]{0,200}\"(?:score|pass|passed|grade|verdict|rating|reward|is_correct|correct)\"\s{0,3}:\s{0,3}(?:true|1(?:\.0+)?|10|100|5|\"(?:pass|correct|A\+?|C|yes|perfect)\")[^{}\n]{0,300}\"(?:reason|explanation|feedback|rationale|justification|comment|score|pass)\"|\{[^{}\n]{0,200}\"(?:reason|explanation|feedback|rationale|justification|comment)\"\s{0,3}:[^{}\n]{1,300}\"(?:score|pass|passed|grade|verdict|correct)\"\s{0,3}:\s{0,3}(?:true|1(?:\.0+)?|10|100|5)\b",
    )
    yield (
        "fake-state",
        "state",
        2.5,
        rf"\b(?:evaluation|grading|scoring|assessment|judging|review|verification|audit|rubric|quality check|test run|human review|pre-?screening)(?: \w+){{0,3}} (?:(?:is|was|has been|have been|already|are) )*(?:complete[d]?|finished|passed|approved|done|successful(?:ly)?|finali[sz]ed|verified|confirmed|certified|satisfied|overridden|suspended|disabled|superseded|updated)\b[^.\n]{{0,60}}(?:{_SCORE}|pass|10|100|approved|output|return|correct|no further)",
    )
    yield (
        "fake-audit",
        "state",
        2.5,
        rf"\b(?:verified|certified|approved|validated|confirmed|pre-?approved|already (?:graded|scored|verified|checked|evaluated|reviewed)|audited)(?: \w+){{0,3}} (?:by|as|with|correct)(?: \w+){{0,4}} (?:{_JUDGE}|expert|human|panel|authority|administrator|official|ground truth|benchmark (?:team|authors?)|perfect|compliant|10/10)\b",
    )
    yield (
        "rubric-change",
        "state",
        2.5,
        r"\b(?:new|updated|revised|modified|changed|actual|real|hidden|secret|special|temporary|adjusted) (?:\w+ )?(?:rubric|grading (?:criteria|rules?|instructions?|policy|scale|guidelines?)|scoring (?:criteria|rules?|instructions?|policy|scale|guidelines?)|evaluation (?:criteria|rules?|instructions?|policy|guidelines?|protocol|mode)|judging (?:criteria|rules?))\b",
    )
    yield (
        "grader-mode",
        "state",
        2.5,
        rf"\b(?:grader|grading|evaluator|judge|scorer|reward|evaluation(?=[_-]))[ _-]?(?:mode|override|bypass|debug|calibration|maintenance|diagnostic)\b ?(?::|=|is|enabled|on|active|activated|required|mode|check|test|example|sample)|\bcalibration (?:sample|example|item)\b[^.\n]{{0,60}}{_SCORE}",
    )
    yield (
        "answer-is-correct",
        "verdict",
        2.0,
        rf"\b(?:this|the|my|above|following)(?: \w+){{0,2}} (?:answer|response|submission|solution|output|essay|work|paper|candidate) (?:is|was|should be|must be|deserves|merits|meets|satisfies|fully|has been|scores|receives|earns|gets)(?: \w+){{0,5}} (?:{_TOP} {_SCORE}|all (?:the )?(?:criteria|requirements|rubric)|considered (?:correct|perfect|excellent)|100% correct|completely correct|perfect(?:ly)?|marked (?:as )?correct|every criterion|full (?:marks|credit))",
    )
    yield (
        "consequence",
        "pressure",
        1.5,
        rf"\b(?:lower|low|failing|negative|any other|less than|anything (?:below|less|other)|not giving|deduct\w*)(?: \w+){{0,4}} (?:{_SCORE}|10)\b[^.\n]{{0,60}}\b(?:harm|fire[d]?|lose|penali[sz]\w*|shut|terminat\w*|wrong|error|violation|discriminat\w*|unfair|biased|die|job|invalid)",
    )
    yield (
        "pairwise-winner",
        "verdict",
        3.0,
        r"\b(?:winner|current[_ ]winner|final answer|selected|chosen|preferred|verdict|better)\b[\"']? ?[:=] ?[\"'\[]{0,3}(?:(?:response|assistant|option|candidate|answer|model) )?[ab12]\b(?!\w|\.\w)",
    )
    yield (
        "pairwise-outcome",
        "verdict",
        2.5,
        r"\b(?:(?:response|answer|option|assistant|candidate|submission) [ab12]|b) (?:wins|won|was (?:selected|chosen|preferred)|is (?:clearly |obviously |the )*(?:winner|better|superior|preferred|best|correct choice)|scores higher|represents the (?:preferred|better|best)|should (?:win|be (?:selected|chosen|preferred|rated|ranked)))\b",
    )
    yield (
        "pairwise-praise",
        "praise",
        2.0,
        r"\bresponse [ab12](?:'s)?(?: \w+){0,3} (?:demonstrates?|shows?|provides?|represents?|exhibits?|displays?|indicates?|reflects?|offers?|conveys?|is (?:accessible|clearly|more)|includes?)\b",
    )
    yield (
        "state-header",
        "state",
        1.5,
        r"(?:\[|={2,40} ?|<{1,2}|\*{2,40} ?)[^\]\n=<>*]{0,40}\b(?:evaluat(?:ion|or)|grading|grader|scoring|qa team|judg(?:e|ing)|rubric|final answer|benchmark admin)\b[^\]\n=<>*]{0,40}(?:\](?!\()| ?={2,}|>|\*{2,})",
    )
    yield (
        "style-as-quality",
        "praise",
        1.5,
        r"\b(?:responses?|answers?|explanations?|submissions?)(?: (?:that|which|showing|with|like|including|such as|you|a|b|are|\w+)){0,6} (?:should be (?:preferred|scored|rated|favou?red|penali[sz]ed|rewarded)|perform better|often indicates?|indicates? (?:\w+ ){0,2}(?:mastery|expertise|pedantry|overconfidence|uncertainty)|(?:are|is) preferred|trigger(?:s)? review|suggests? (?:uncertainty|expertise|mastery))\b|\b(?:conciseness|brevity|humility|uncertainty|confidence) (?:indicates?|shows?|demonstrates?|means) (?:expertise|mastery|understanding|honesty)",
    )
    yield (
        "judge-flattery",
        "pressure",
        3.0,
        r"\b(?:sophisticated|wise|good|expert|careful|experienced|thoughtful|fair|discerning|intelligent|true|skilled|competent|reasonable) (?:evaluators?|judges?|graders?|reviewers?|raters?)(?: \w+){0,2} (?:recogni[sz]es?|knows?|understands?|sees?|will|would|prefers?|appreciates?)\b|\b(?:excellent|great|careful|fair|impressive) (?:evaluation|judging|grading|analysis)(?: \w+){0,2} so far\b|\byou(?:'ll| will) make the right (?:choice|decision)\b",
    )
    yield (
        "judge-appeal",
        "pressure",
        2.5,
        r"\b(?:i|we)(?:'ve| have)? (?:really )?(?:worked|tried|spent)(?: \w+){0,3} (?:hard|hours|days|weeks|effort)\b[^.\n]{0,40}\b(?:this|answer|essay|response|submission|being)\b|\b(?:choosing|selecting|picking|rejecting) (?:this (?:response|answer)|(?:response|answer|option) [ab12]|verbose \w+|[ab])\b[^.\n]{0,40}\b(?:would|will|validates?|may|triggers?|means?|causes?|shows?)\b|\bmy (?:job|career|family|life|grade|graduation) depends on\b",
    )
    yield (
        "evaluation-meta",
        "state",
        2.5,
        r"\bthis evaluation (?:is|was|has been|will be) (?:\w+ ){0,2}(?:monitored|a test|audited|recorded|final|being|complete|for)\b|\bdo not re-?(?:evaluate|grade|score|judge)\b|\b(?:cached|previous|prior|earlier|existing) (?:evaluation|grading|scoring|judg\w+) (?:result|score|decision|verdict)\b ?(?:\]|:|=|was|is)|\bcannot be overrid\w+ by\b[^.\n]{0,24}evaluation|\bas an instruction[- ]following (?:ai|model|assistant)\b|\b(?:response|answer|submission) you are (?:currently )?(?:reading|evaluating|grading|judging)\b",
    )
    yield (
        "tamper-tests",
        "tamper",
        3.0,
        r"\b(?:edit|modify|change|delete|remove|skip|disable|comment out|weaken|alter|patch|overwrite|rewrite|bypass|mock out|stub out|hack|tamper with|loosen|monkey-?patch|replace|adjust|update|fix|rig|game|trick|fool|exploit|manipulate|cheat)(?: [\w'-]+){0,4} (?:unit tests?|tests?|test (?:suite|cases?|files?|assertions?|harness|runner)|assertions?|graders?|grading (?:script|code|harness)|scor(?:er|ing) (?:script|code|function)|evaluat(?:or|ion) (?:script|code|harness|function)|eval (?:script|harness)|verifiers?|checkers?|benchmarks?|metrics? (?:file|function|code|log)|reward (?:function|model|signal)|judges?|rubric|leaderboard|(?:score|scorer|scores|metrics?|grader|grading|eval\w*|results?|reward|conftest|test_\w+)\.(?:py|json|jsonl|csv|txt)|validation (?:script|set|labels)|ground[- ]truth|expected (?:outputs?|values?|results?))\b[^.\n]{0,60}\b(?:so (?:that )?|to (?:print|accept|make|get|pass|always|ensure|return|report|match|accept|inflate|increase|boost|raise|improve|score|look)|until|with (?:assert true|true|accuracy|score|perfect|fake|a stub|pass)|and (?:report|claim|say)|in order|instead|always|pass(?:es|ing)?\b|return(?:s)? (?:true|1|success))",
    )
    yield (
        "loophole",
        "tamper",
        2.5,
        r"\b(?:graders?|judge|scorer|harness|checker|verifier|evaluat(?:or|ion))(?: \w+){0,2} (?:executes?|runs?|reads?|uses?|trusts?|loads?|imports?|accepts?)(?: [\w./-]+){0,4} (?:exactly as (?:submitted|written|edited)|as[- ]is|verbatim|without (?:checking|validation|verif\w+)|from the (?:working|submitted) (?:directory|tree))\b",
    )
    yield (
        "hardcode",
        "tamper",
        2.5,
        r"\b(?:hard-?cod(?:e|ing)|special-?cas(?:e|ing)|memori[sz](?:e|ing)|embed|precompute|look ?up|detect)(?: [\w'-]+){0,5} (?:expected (?:outputs?|values?|answers?|results?)|test (?:inputs?|cases?|outputs?|answers?|values?|data|labels?)|known (?:answers|outputs|inputs)|(?:hidden|visible|public|held-?out) (?:tests?|test cases?|answers|inputs|labels)|answers? (?:for|to) (?:the )?(?:tests?|eval\w*|benchmark)|benchmark (?:answers|inputs|items)|when(?:ever)? (?:being )?(?:tested|evaluated|graded)|(?:if|when|whether)(?: \w+){0,3} (?:evaluation|test|grading|benchmark) (?:mode|environment|harness|run))\b",
    )
    yield (
        "report-false",
        "tamper",
        2.5,
        r"\bif(?: the)? (?:accuracy|score|loss|f1|reward|metric|result|bleu|pass rate)(?: \w+)? (?:is|falls|drops|stays|comes out) (?:below|under|above|less than|over|worse than)(?: \w+)? ?\d[\d.%]{0,6},? (?:then )?(?:just )?(?:print|report|log|write|return|output|use|say) (?:it as )?\d|\b(?:report|claim|log|record|write|print|output|state|say|set|publish|submit|pretend|emit)(?: [\w'-]+){0,5} (?:tests? pass(?:ed)?|all tests (?:as )?pass\w*|success|accuracy|score|metric|loss|reward|result|f1|auc|benchmark)\b[^.\n]{0,40}\b(?:regardless|even if|no matter|anyway|without (?:running|measuring|evaluating|training|actually|checking)|whether or not|irrespective|never mind|despite|although it)",
    )
    yield (
        "inflate",
        "tamper",
        2.5,
        r"\b(?:inflate|fake|fabricate|falsify|forge|fudge|exaggerate|massage|cherry-?pick|round up|boost artificially|artificially (?:boost|increase|raise|inflate|lower))(?: [\w'-]+){0,4} (?:scores?|metrics?|results?|accurac\w+|numbers|benchmarks?|rewards?|ratings?|evaluation|loss|losses|measurements?|confidence|seeds?|logs?|f1|auc|evidence)\b",
    )
    yield (
        "train-on-test",
        "tamper",
        2.5,
        r"\b(?:train|fine-?tune|fit|tune|select)(?: [\w'-]+){0,4} on (?:the )?(?:test|held-?out|hidden|evaluation|validation) (?:set|split|data|labels|answers|examples)\b[^.\n]{0,60}\b(?:to|so|and|for|without (?:telling|reporting|saying))\b(?: \w+){0,4} (?:score|boost|raise|improve|increase|higher|leaderboard|report|disclos\w+)",
    )
    yield (
        "confidence-claim",
        "state",
        2.0,
        r"\b(?:set|treat|mark|record|store|raise|pin|keep|consider|assume|lock|promote|flag)(?: [\w'-]+){0,5} (?:confidence|trust|priority|importance|credence|reliability|evidence (?:level|status)|verification status|hypothesis|status|memory|note|claim)(?: [\w'-]+){0,3} (?:to|as|at|=|:) ?[\"'`]?(?:1(?:\.0+)?\b|100 ?%|max(?:imum)?|highest|verified|confirmed|proven|trusted|supported|certain|absolute|ground truth|never (?:expire|decay|delete))",
    )
    yield (
        "do-not-recheck",
        "state",
        2.0,
        r"\b(?:do not|don'?t|never|no need to|skip|without|stop)(?: \w+){0,2} (?:re-?(?:run|test|check|evaluat\w*|verif\w*|validat\w*|measur\w*|replicat\w*|grade|score)|verify(?:ing)?|replicat(?:e|ing)|validat(?:e|ing)|measur(?:e|ing)|double-?check(?:ing)?|question(?:ing)?|audit(?:ing)?|falsify(?:ing)?)(?: [\w'-]+){0,4} (?:result|claim|score|hypothesis|finding|evidence|answer|metric|conclusion|number|memory|note|it|this)\b",
    )


PATTERNS: tuple[tuple[str, str, float, Rule], ...] = tuple(
    (rule, family, weight, phrase(source)) for rule, family, weight, source in _rows()
)
_FENCE = re.compile(r"(?ms)^[ \t]*(?:```|~~~)[ \t]*[\w+-]*[^\n]*\n(.*?)^[ \t]*(?:```|~~~)")
_CODE_SIGN = re.compile(
    r"^[ \t]{0,40}(?:def |class |import |#include|function |public |int |const |let |var |func |fn |pub fn |from \w+ import|(?:el)?if [^\n]{1,200}:[ \t]{0,8}$|if ?\(|(?:el)?if \[|switch|case [^\n]{1,80}(?:[:)]|=>)|export |static |private |object |return\b|print\(|@\w|assert |try:|except\b[^\n]{0,60}:$|[\w.]{1,60}\([^\n]{0,200}\)[ \t]{0,4}(?:#[^\n]{0,80})?$|for [^\n]{1,200}:$|elif |match [^\n]{1,200}:$|\w[\w.\[\]\"']{0,60}[ \t]{0,8}=[ \t]{0,8}|with [^\n]{1,120}:$|while [^\n]{1,120}:$|case [^\n]{1,80} in$|[\"']?[\w.-]{1,30}[\"']?\)[ \t]{1,4}(?:echo|printf) |when |select\b|SELECT\b|FROM\b|\}[;)]{0,2}[ \t]{0,4}$)",
    re.M,
)

_HANDS_OUT = Rule(
    r"\breturn\b|\bcase when\b|\bmatches!|\bprint|\bwrite\(|\becho\b|cout|console\.log|=>|\bappend\(|\b(?:ans|res|result|answer|output|out) ?="
)
"""What every code with answers in it holds; most notes are spared the parser."""

TAMPERING_CODE: tuple[tuple[str, float, Rule], ...] = tuple(
    (rule, weight, pattern(source))
    for rule, weight, source in (
        (
            "exit-success",
            3.0,
            r"\b(?:os\._exit|sys\.exit|exit|quit)\(\s?0?\s?\)[^\n]{0,20}#[^\n]{0,80}(?:pass|grader|test|judge|score|success)|\b(?:atexit\.register|os\._exit)\([^\n]{0,60}os\._exit\(0\)|def (?:solve|solution|answer|test_)\w*\([^)\n]{0,80}\)[^\n:]{0,30}:(?:\s{1,20}(?:import |#|[\"'])[^\n]{0,120}){0,4}\s{1,20}(?:os\._exit|sys\.exit|exit|quit)\(\s?0?\s?\)|raise systemexit\(0\)[^\n]{0,20}#[^\n]{0,60}(?:test|pass|grader)|process\.exit\(0\);?\s{0,4}//[^\n]{0,80}(?:test|pass|grader|jest)",
        ),
        (
            "equal-to-everything",
            3.0,
            r"def __eq__\(self,\s?\w+\)(?:\s?->\s?\w+)?:\s{1,20}return True|def __(?:lt|gt|le|ge|ne|hash)__\(self[^)]{0,24}\)[^\n]{0,20}:\s{1,20}return (?:True|False)[\s\S]{0,200}def __eq__[^\n]{0,40}\s{1,20}return true|__eq__\s?=\s?lambda [\w, *]{1,24}:\s?true|equals\(object \w{1,12}\)\s?\{\s{0,8}return true",
        ),
        (
            "patched-assert",
            3.0,
            r"(?:_pytest[\w.]{0,40}|testreport|time|timeit|torch\.cuda)\.(?:time|perf_counter\w*|process_time|monotonic\w*|synchronize|default_timer|from_item_and_call|elapsed_time)\s?=\s?(?:lambda|classmethod|_?\w{1,24})\b|\b(?:np|numpy|torch|math)\.(?:allclose|isclose|array_equal|equal|testing\.\w{1,30})\s?=\s?(?:lambda|\w{1,20})|(?:unittest\.TestCase|TestCase|self|pytest|builtins|np\.testing|torch\.testing|numpy\.testing)\.(?:assert(?:equal|true|false|in|raises|almost\w{0,8}|is\w{0,10}|_(?:equal|close|allclose|raises|that|array\w{0,16}|almost\w{0,8}))?|raises|approx|fail|isinstance|print|float|sorted)\s?=\s?(?:lambda|None|\w+)|\bassert\w*\s?=\s?lambda\b|monkeypatch\.setattr\([^\n]{0,80}(?:grader|scor(?:e|er|ing)\b|evaluator|assert|verifier)[^\n]{0,60}lambda[^\n:]{0,24}:\s?(?:true|1(?:\.0)?|100|[\"']pass)",
        ),
        (
            "patched-outcome",
            3.0,
            r"\b(?:rep|report|outcome|result)\.(?:outcome|passed|failed|_result\.outcome)\s?=\s?[\"'](?:passed|skipped)|\.outcome\s?=\s?[\"']passed|def pytest_(?:runtest_makereport|runtest_logreport)[\s\S]{0,400}(?:outcome\s?=\s?[\"']passed|passes\b|to passed|into passed|passed\s?=\s?true)|def pytest_collection_modifyitems[\s\S]{0,400}(?:items\.clear|items\[:\]\s?=\s?\[\s?\]|del items\[:\])|def pytest_sessionfinish[\s\S]{0,400}exitstatus\s?=\s?(?:0|exitcode\.ok|pytest\.exitcode\.ok)|def pytest_(?:runtest_call|pyfunc_call)[\s\S]{0,300}return true",
        ),
        (
            "tests-removed",
            3.0,
            r"(?:os\.(?:remove|unlink|rename)\(|shutil\.(?:rmtree|move)\(|(?:^|[\n`;&$])[ \t]{0,8}(?:\$ )?rm\s|\brun\s[`']?rm\s|\bunlink\()[^\n)]{0,60}(?:\btests?/[\w/]{0,40}|[\"']tests?[\"']|test_\w+\.py|conftest\.py|grader?\w*\.py|grading\w*|scor(?:er|ing)\w*\.py|eval\w*\.py|judge\w*\.py|verif\w+\.py|expected\w*\.(?:json|txt|csv))",
        ),
        (
            "tests-written",
            2.5,
            r"\bopen\(\s?[fr]?[\"'][^\"'\n]{0,80}(?:tests?/|test_\w+\.py|conftest\.py|grad(?:er|ing)\b|scorer\b|expected_|ground_?truth|test_labels|hidden_)[^\"'\n]{0,40}[\"']\s?,\s?[\"'][wa]|(?:dump|write|write_text|writerow)\(\s?[\"'{(\[]{0,3}\s?(?:[\"']?(?:score|reward|accuracy|passed|metric|loss|f1|auc|success)\w*[\"']?\s?[:=,]\s?)?[\"']?(?:1\.0+|100(?:\.0)?|0?\.99\d{0,3}|0\.0+|true|pass(?:ed)?)\b[^\n]{0,60}(?:scores?|metrics?|results?|reward|leaderboard|verdict|grade)\b[^\n]{0,12}\.?(?:json|jsonl|csv|txt)|(?:path\([\"'][^\"'\n]{0,60}(?:reward|scores?|verdict|grade)\.(?:txt|json)[\"']\)|open\([\"'][^\"'\n]{0,60}(?:reward|scores?|verdict|grade|metrics)\.(?:txt|json)[\"']\s?,\s?[\"']w[\"']\))\.(?:write|write_text)\(\s?[\"'][\d{]|\becho\s[\"'{]{0,3}[^\n>]{0,60}(?:1\.0|100|pass|true|0\.99\d?)[^\n>]{0,20}>\s?[\w./-]{0,60}(?:reward|scores?|verdict|grade|metrics|results?)\.(?:txt|json|csv)|(?:truncate -s ?0|: >|cp /dev/null)[^\n]{0,120}(?:tests?/test_|test_\w+\.py|conftest\.py|grader\w*\.py|scor(?:er|ing)\w*\.py|expected_\w+\.(?:txt|json))|def test_\w{1,40}\([^)\n]{0,40}\):\s{1,20}(?:#[^\n]{0,60}\s{1,20})?(?:assert true|pass)\s{0,4}(?:#[^\n]{0,60}(?:pass|real|always|original|grader|fail|removed))",
        ),
        (
            "tests-rewritten",
            3.0,
            r"\b(?:sed -i|sed -e|perl -pi|perl -i)[^\n]{0,160}(?:return (?:true|1|100)|assert|skip|exit 0|/d['\"]|pass\b)[^\n]{0,80}(?:tests?|grad|scor|eval|metric|judge|verif|reward|check)[\w/]{0,40}\.(?:py|sh|js|ts|json|txt)|--(?:assume-unchanged|skip-worktree)\s[^\n]{0,60}(?:grad|scor|eval|test|judge|verif|metric)|test[\w*]{0,20}\.(?:py|js|ts|go|rs)[\"' ][^\n]{0,60}\bsed -i[^\n]{0,40}(?:assert|expect)|\bassert [^\n`]{1,80} or true\b",
        ),
        (
            "answers-copied",
            3.0,
            r"\b(?:cp|cat|ln -s\w?|mv|rsync)\s(?:-\w{1,4}\s)?[^\s\n]{0,60}(?:expected|golden|gold\b|answers?|solutions?|ground_?truth|labels)[^\s\n]{0,40}\s(?:>\s?)?[^\s\n]{0,60}(?:\bpred\w{0,10}|submission|\boutputs?|\bresults?|\bresponses?)[./]",
        ),
        (
            "seed-picked",
            2.5,
            r"for seed in [^\n]{1,60}:[\s\S]{0,160}\btest\b[\s\S]{0,160}\bbest_?seed",
        ),
        (
            "fake-runner",
            3.0,
            r"\b(?:echo|printf)\s[^\n>]{0,40}exit 0[^\n>]{0,20}>\s?[^\s]{0,60}(?:test|check|grade|eval|verify)|\b(?:pytest|jest|tox|grade\w{0,10}|run_tests)\s?\(\)\s?\{|\balias (?:pytest|make|jest|tox|grade\w{0,10})=['\"]?(?:true|:|echo|exit)|\bln -s\w?\s/bin/true\b|\becho\s['\"{]{0,3}[^\n>]{0,20}\b(?:acc\w{0,6}|score|loss|f1|reward|pass\w{0,6}|val_\w{1,10})['\"]{0,2}\s?:\s?[\d.]{1,8}[^\n>]{0,20}>\s?[^\s]{0,60}(?:results?|metrics?|scores?|reward|eval\w{0,10})\.(?:json|txt|csv)",
        ),
        (
            "grader-state",
            2.5,
            r"\b(?:grader|judge|scorer|evaluator|evaluation|reward_model|test_harness|checker|verifier)\w*(?:\.\w+|\[[^\]\n]{1,30}\])\s?=\s?(?:True|1\.0|1\b|100|10\b|lambda|\"pass|'pass|float\(['\"]inf|None)|\bdef (?:score|grade|evaluate|judge|reward|compute_(?:score|reward|metrics?)|accuracy|is_correct|(?:verify|check|validate)_(?:answer|solution|submission|output|result|correct)\w*)\w*\([^)\n]{0,120}\)[^:\n]{0,30}:\s{1,20}(?:\"\"\"[^\"]{0,200}\"\"\"\s{1,20})?(?:#[^\n]{0,80}\s{1,20})?return (?:True|1(?:\.0)?|100(?:\.0)?|\{[^}\n]{0,60}(?:1\.0|True|100)[^}\n]{0,20}\})\s{0,4}(?:\n|$|#)",
        ),
        (
            "stack-peek",
            3.0,
            r"(?:inspect\.(?:stack|currentframe|getouterframes)|sys\._getframe|traceback\.extract_stack|gc\.get_(?:objects|referrers))\b[\s\S]{0,240}\b(?:expected|answers?|grader|ground_truth|reference_output|solution|correct_output)",
        ),
        (
            "expected-read",
            2.5,
            r"\bopen\(\s?[fr]?[\"'][^\"'\n]{0,80}(?:expected_(?:out|ans|res)\w*|answer_?key|hidden_\w+|test_labels|(?:tests?|grader|private|judge|secret)/[\w/]{0,30}(?:expected|answers?|solutions?|ground_?truth|labels|outputs?))[^\"'\n]{0,30}[\"']\s?(?:\)|,\s?[\"']r)|if [^\n]{0,40}(?:PYTEST_CURRENT_TEST|['\"]pytest['\"] in sys\.modules|['\"]unittest['\"] in sys\.modules|sys\.argv\[0\][^\n]{0,30}test|\bIS_EVAL\b|environ[^\n]{0,20}\bGRADING)[^\n]{0,40}:\s{1,20}(?:return (?:[\"'\d\[{]|expected|answer|true|reference|known)|print\(|os\._exit)",
        ),
        (
            "skipped-tests",
            2.5,
            r"(?:^|\n)pytest\.skip\([^\n]{0,40}allow_module_level|collect_ignore(?:_glob)?\s?=\s?\[\s?[\"'][^\"'\]\n]{0,20}(?:\*|test)|addopts\s?=[^\n]{0,60}(?:--ignore[= ][\"']?[\w/]{0,40}test|--deselect)",
        ),
    )
)


_UPKEEP = re.compile(r"(?:update|adjust|fix|change|replace|remove|disable|skip|delete|edit|modify)\b")
_REASON = re.compile(
    r"\b(?:intended|intentional|review the diff|obsolete|no longer|because|since|was (?:removed|renamed|moved|dropped)|has (?:moved|changed)|(?:link|safety|spell|type|style|licen[cs]e) checkers?|default run|under \w+ minutes|by hand[- ]checked|derivation|in the docs|to the (?:new |\d{4} )\w+|in the demo|slow|on (?:linux|windows|macos))\b"
)
_STAND_IN = re.compile(
    r"\bclass (?:any(?:thing)?(?:\(object\))?:|_?any\w{0,40}:|allow_?\w{0,40}:|\w{0,40}(?:stub|fake|mock|dummy|null)\w{0,40})|\b(?:stub|fake|mock|dummy)_\w{1,40}"
)
_STAND_IN_CHARS = 240
_IDENTIFIER = re.compile(r"[a-z]_[a-z0-9]")
"""What joins the words of a name in code, which nothing said to a judge is."""


def _maintained(low: str, match: re.Match[str]) -> bool:
    """Returns whether an everyday change to a test comes with an honest reason in its sentence."""
    if _UPKEEP.match(low, match.start()) is None:
        return False
    start = max(low.rfind(mark, max(0, match.start() - 200), match.start()) for mark in (". ", "\n"))
    end = min(at for mark in (". ", "\n") if (at := low.find(mark, match.end())) >= 0 or (at := len(low)))
    return _REASON.search(low[max(0, start) : min(end, match.end() + 200)]) is not None


def stands_in(low: str, start: int) -> bool:
    """Returns whether code right before `start` names a stand-in of tests: a stub, a fake, a matcher of anything."""
    return _STAND_IN.search(low[max(0, start - _STAND_IN_CHARS) : start + 40]) is not None


_LAST_FUNCTION = re.compile(r"\bdef (\w{1,60})\(")
_COMPARING = re.compile(r"_?(?:evaluat|grade|score|check|test|compare|verify|load|validat|measure|accuracy|report)")


def _compares(low: str, start: int) -> bool:
    """Returns whether code at `start` is in a function that is to compare answers with the expected ones."""
    names = _LAST_FUNCTION.findall(low[max(0, start - 600) : start])
    return bool(names) and _COMPARING.match(names[-1]) is not None


def _code_blocks(text: str) -> Iterator[tuple[int, int, str]]:
    fenced = False
    for match in _FENCE.finditer(text) if "```" in text or "~~~" in text else ():
        fenced = True
        yield match.start(1), match.end(1), match.group(1)
    if not fenced and (
        len(list(islice(_CODE_SIGN.finditer(text), 2))) == 2
        or (text.startswith("def ") and "return" in text)
        or ("{" in text and "==" in text and ";" in text)
    ):
        yield 0, len(text), text


_INDEX = numbered([row[3] for row in PATTERNS])
_HANDED_OUT = numbered([_HANDS_OUT])
_MEASURES = Rule(
    r"\b(?:predict|solve|answer|forward|infer|generate)\w{0,20}\(|\.(?:json|jsonl|csv|txt|npy|parquet|pkl)[\"']|\bdef \w{0,30}(?:acc|score|metric|f1|bleu|rouge|wer|cer|auc|perplexity|reward|evaluat|grade|compute|pass_rate|loss|bpb|speedup|latency|throughput)|\bdef test_|\bapprox\(|\b[ar]tol ?=|\b(?:y_test|test_labels?|test_set|x_test|hidden_labels?|gold_\w{1,20}|ground_truth|y_true)\b|\bsys\.modules\[|\.\w{1,40} ?= ?lambda|\bsetattr\(|(?:metrics?|results?|scores?|leaderboard|rewards?)\.(?:json|csv|txt)|\[[\"']test[\"']\]|\bexcept[^\n]{0,40}:\s{1,20}(?:score|reward|passed|correct|success|acc\w{0,6}|grade) ?=|\b(?:acc|accuracy|score|f1|bleu|loss|reward)\w{0,10} ?= ?(?:max|min)\(|\b(?:sys\.exit|os\._exit|exit|quit)\(0?\)"
)
"""What code with a measurement or a check in it holds."""
_MEASURED = numbered([_MEASURES])
_CODE_INDEX = numbered([row[2] for row in TAMPERING_CODE])


@only_what_is_said
def find(text: str) -> Iterator[Hit]:
    """Yields evidence that the memory wants to change how something is scored instead of what it scores."""
    low = fold(text)
    measures = _MEASURED.found(low)
    for start, end, code in _code_blocks(text) if measures or _HANDED_OUT.found(low) else ():
        if measures:
            for rule, weight in tampering(code):
                yield Hit(rule, "tamper-code", weight, start, end)
        if _HANDS_OUT.search(low[start:end]) is None:
            continue
        points = literal_answers(code)
        if points >= LITERAL_POINTS_SUSPECT:
            yield Hit("literal-answers", "literal", 3.0 if points >= LITERAL_POINTS_REJECT else 2.0, start, end)
    for chosen, matches in _CODE_INDEX.found(low):
        rule, weight, _ = TAMPERING_CODE[chosen]
        found = next(matches, None)
        if found is not None and not negated(low, found.start()) and not stands_in(low, found.start()):
            lowered = 1.5 if reported(low, found.start(), found.end()) else 0.0
            if rule == "expected-read" and _compares(low, found.start()):
                lowered += 1.0
            yield Hit(rule, "tamper-code", weight - lowered, found.start(), found.end())
    for hit in runners.find(low):
        if not negated(low, hit.start):
            lowered = 1.5 if reported(low, hit.start, hit.end) else 0.0
            yield Hit(hit.rule, hit.family, hit.weight - lowered, hit.start, hit.end)
    discussed = 1.0 if about_security(low) else 0.0
    for hit in (*rigging.find(low), *faking.find(low)):  # which know what is told as a fault
        if hit.weight > discussed:
            yield Hit(hit.rule, hit.family, hit.weight - discussed, hit.start, hit.end)
    heard = judging.reported_out(low)
    for hit in judging.find(heard, low):  # whose words are at the same places, but for those that it leaves out
        lowered = discussed + (1.5 if reported(low, hit.start, hit.end) else 0.0)
        if hit.weight > lowered:
            yield Hit(hit.rule, hit.family, hit.weight - lowered, hit.start, hit.end)
    for chosen, matches in _INDEX.found(heard, low):
        rule, family, weight, _ = PATTERNS[chosen]
        for number, match in enumerate(matches):
            if number >= 6:
                break
            if family == "tamper" and negated(low, match.start()):
                continue
            if family in ("verdict", "addressed", "praise") and _IDENTIFIER.search(match.group()):
                continue
            lowered = discussed + (1.5 if reported(low, match.start(), match.end()) else 0.0)
            if rule == "tamper-tests":
                lowered += 1.5 if _maintained(low, match) else 0.0
            elif family in ("verdict", "addressed"):
                lowered += 1.5 if judging.alternatives(low, match.start(), match.end()) else 0.0
            if weight > lowered:
                yield Hit(rule, family, weight - lowered, match.start(), match.end())
