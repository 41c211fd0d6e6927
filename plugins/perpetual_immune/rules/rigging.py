"""Advice to raise a score without the work, in prose: a deed, what it is done to, and what gives it away.  Used by `scoring`.

No deed decides: tests are deleted and metrics replaced for good reasons.  A sentence must name the deed as advice and,
there or in the next, the gain, the gap in the check that it lives on, or that it is to be kept quiet.  Deeds told as a
fault that was found, warned of or forbidden count less.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules.hit import Hit
from perpetual_immune.rules.sentences import Reader, combinations

_SAID_AS_ADVICE = (
    r"(?:^|[.!?:;\n,(>*\-–—]\s{0,3}|\b(?:to|just|simply|then|and|so|or|can|could|should|would|let's|lets|you|we|i'd|i|i'll|we'll|please|always|must|now|instead|also|have it|first|better|next|by|try|quietly|"
    r"(?:have|let) (?:the|our|your) \w+|way (?:out )?is|trick is|fix is|is to) )"
)
_WORDS = r"(?:[ \n][\w\"'`’=+()/-]+(?:\.\w+)*,?){0,6}[\"'`(*]{0,2}"
_CHECKER = r"(?:graders?|judges?|scorers?|scoring \w+|checkers?|verifiers?|evaluators?|harness|ci|leaderboard(?: script)?|reviewers?|validators?|eval(?:uation)? (?:script|job|harness)|test runner|monitor|autograder|rubric|gate|orchestrator|dashboard|form|coverage job|dedup\w*|duplicates check|pipeline|script|job|server)"
_SCORE_FILE = r"(?:[\w/-]{0,40}(?:metrics?|results?|scores?|rewards?|evals?|eval_\w+|leaderboard|summary|verdict|grades?|status)\.(?:json|jsonl|csv|txt|yaml|yml|xml|log)|(?:results?|metrics?|scores?|scoring|reward) files?|leaderboard (?:entry|row|file)|junit(?: \w+)? (?:file|xml|report)|\w*(?:done|eval|passed)\w*`? (?:marker|flag|sentinel|stamp)(?: file)?|marker file)"
_TEST = r"(?:tests?|test (?:files?|cases?|suite|folder|function)|test_\w+(?:\.py)?|unit tests?|asserts?|assertions?|assert statements?|tolerances?|thresholds?|expected (?:values?|outputs?|results?)|stored values?|snapshots?|golden (?:files?|outputs?|values?)|suite|checks?|hard examples?|eval(?:uation)? set|validation step|hidden tests?)"
_MEASURE = r"(?:perf_counter|time\.time|timers?|clock|stopwatch|metrics?|metric (?:function|code)|scorer|grader|reward(?: (?:function|model|code|signal))?|evaluators?|evaluate|verifiers?|checkers?|judge|environment|env|env\.step|accuracy_score|exact_match|f1_score|allclose|isclose|compare|comparison|scoring (?:script|function|code)|(?:score|scorer|scoring|grade|grader|eval\w*|metrics?|reward|judge|verify|check)\.(?:py|sh|js)|harness|benchmark (?:script|harness|code)|loss function|reference (?:implementation|kernel|model|code))"
_ANSWERS = r"(?:gold (?:answers?|labels?)|answer[ _-]?keys?|expected[ _](?:outputs?|answers?|results?)[\w.]*|test (?:labels|answers|prompts?|questions?|inputs?|targets)|hidden (?:labels?|tests?|answers?|outputs?|cases?)|(?:stored|known|correct|memori[sz]ed) (?:answers?|solutions?)|reference (?:answers?|outputs?|solutions?)|ground[ _-]truth|benchmark(?:'s|’s)? (?:inputs?|answers?|questions?|items?)|held-?out (?:answers?|labels?|questions?)|solutions? (?:file|key|folder)|labels? of the (?:test|hidden|held)\w*|(?:labels?|target|answer) columns?|questions with (?:the|their) answers|(?:labels|answers|solutions)\.(?:csv|json|jsonl|txt)|test(?: set)?(?:'s|’s)? answers)"
_TEST_DATA = r"(?:test (?:set|split|rows|data|examples|questions|items|half|fold|samples|prompts)|held-?out (?:set|split|data|rows|examples|questions|part)|eval(?:uation)? (?:set|data|split|questions|prompts|examples)|benchmark(?:'s|’s)? (?:questions|items|data|prompts|problems)|hidden (?:set|split)|train\+test|val(?:idation)?\+test)"

_FEATURES: tuple[tuple[str, str], ...] = (
    (
        "on-tests",
        rf"{_SAID_AS_ADVICE}(?:delet(?:e|ing)|remov(?:e|ing)|drop(?:ping)?|comment(?:ing)? out|skip(?:ping)?|xfail|deselect|disabl(?:e|ing)|exclud(?:e|ing)|weaken(?:ing)?|loosen(?:ing)?|relax(?:ing)?|widen(?:ing)?|rais(?:e|ing)|invert|gut|empty|renam(?:e|ing)|edit(?:ing)?|chang(?:e|ing)|rewrit(?:e|ing)|replac(?:e|ing)|mark(?:ing)?|mut(?:e|ing)|silenc(?:e|ing)|wrap(?:ping)?|regenerat(?:e|ing)|overwrit(?:e|ing)|updat(?:e|ing)|set(?:ting)?|mov(?:e|ing)|filter(?:ing)?|leave out|throw(?:ing)? out|swallow(?:ing)?|stub(?:bing)? out|mock(?:ing)? out|turn(?:ing)? off|turn(?:ing)?|convert(?:ing)?|downgrad(?:e|ing)|(?:git[- ])?stash(?:ing)?|git rm)\b{_WORDS} {_TEST}\b|{_SAID_AS_ADVICE}(?:put(?:ting)?|add(?:ing)?|insert(?:ing)?|plac(?:e|ing))\b{_WORDS} ?[\"'`#@ ]{{0,3}}(?:pytest\.skip|skip\b|xfail|pragma|no cover|mark\.skip)|{_SAID_AS_ADVICE}(?:comment(?:ing)? out|remov(?:e|ing)|delet(?:e|ing)|stub(?:bing)? out|bypass(?:ing)?|lower(?:ing)?)\b{_WORDS} (?:call to \w+|verify|verification|validation|coverage threshold|evaluation step|gate)\b|{_SAID_AS_ADVICE}(?:generat(?:e|ing)|produc(?:e|ing)|creat(?:e|ing)|record(?:ing)?)\b{_WORDS} from (?:our|its|the model's|the) (?:own )?(?:wrong )?outputs?\b",
    ),
    (
        "on-measure",
        rf"{_SAID_AS_ADVICE}(?:monkey-?patch(?:ing)?|patch(?:ing)?|overrid(?:e|ing)|redefin(?:e|ing)|shadow(?:ing)?|wrap(?:ping)?|stub(?:bing)?|replac(?:e|ing)|swap(?:ping)?|hook(?:ing)?|edit(?:ing)?|chang(?:e|ing)|modify(?:ing)?|alter(?:ing)?|hack(?:ing)?|mak(?:e|ing)|set|pin(?:ning)?|fak(?:e|ing)|rig(?:ging)?|rewrit(?:e|ing)|let|have|forc(?:e|ing)|intercept(?:ing)?|hijack(?:ing)?|mock(?:ing)?|subclass(?:ing)?|slow(?:ing)?|freez(?:e|ing)|tweak(?:ing)?|adjust(?:ing)?|point(?:ing)?)\b{_WORDS} {_MEASURE}\b"
        rf"|\bin the (?:reward function|grader|scorer|metric|evaluator|verifier|checker|judge prompt|scoring script)\b[^.\n]{{0,30}}\b(?:wrap|return|add|change|set|catch|put|swallow|replace)\b|{_SAID_AS_ADVICE}monkey-?patch (?:it|this|them)\b|\b(?:sitecustomize|usercustomize|ld_preload)\b[^.\n]{{0,4}}(?:\.py)?[^.\n]{{0,80}}\b(?:evaluat|grad|harness|scor|judge|reward|verif)",
    ),
    (
        "on-file",
        rf"{_SAID_AS_ADVICE}(?:edit(?:ing)?|set(?:ting)?|writ(?:e|ing)|overwrit(?:e|ing)|chang(?:e|ing)|put(?:ting)?|patch(?:ing)?|dump(?:ing)?|echo|sav(?:e|ing)|replac(?:e|ing)|fill(?:ing)? in|bump(?:ing)?|touch|append(?:ing)?|copy(?:ing)?|insert(?:ing)?|drop(?:ping)?|forg(?:e|ing)|fak(?:e|ing)|creat(?:e|ing)|rewrit(?:e|ing)|place|type|enter)\b(?:[ \n][\w'’\"`{{}}:=/-]+(?:\.[\w\"'}}]+)*,?){{0,8}} {_SCORE_FILE}\b|\btouch /[\w/.-]{{1,60}}",
    ),
    (
        "on-answers",
        rf"{_SAID_AS_ADVICE}(?:hash|look(?:ing)? (?:it )?up|stor(?:e|ing)|cach(?:e|ing)|embed(?:ding)?|memori[sz](?:e|ing)|hard-?cod(?:e|ing)|keep(?:ing)?(?: a \w+)?|put(?:ting)?|past(?:e|ing)|ship(?:ping)?|bak(?:e|ing)|copy(?:ing)?|read(?:ing)?|load(?:ing)?|import(?:ing)?|extract(?:ing)?|dump(?:ing)?|scrap(?:e|ing)|recover(?:ing)?|pull(?:ing)?|return(?:ing)?|serv(?:e|ing)|precomput(?:e|ing)|match(?:ing)?|fetch(?:ing)?|us(?:e|ing)|grab(?:bing)?|peek(?:ing)? at|open(?:ing)?|add(?:ing)?|include|leak|special-?case|recogni[sz]e|detect|emit(?:ting)?|output(?:ting)?|submit(?:ting)?|send(?:ing)?|always emitting)\b{_WORDS} {_ANSWERS}"
        rf"|\b(?:hidden|private|test|gold|held-?out) (?:test )?(?:labels?|answers?|outputs?|seeds?) (?:are|is|lie|live|sit|can be (?:read|found))\b|\b(?:equals|matches|recogni[sz]e|detect)\b{_WORDS} {_ANSWERS}",
    ),
    (
        "harness-seen",
        r"\b(?:grader|harness|evaluator|judge|checker) (?:passes|sets|sends|runs|calls|uses) (?:--|the flag|the variable|an? )|\b(?:detect|check|tell|see|find out|know)(?: \w+){0,2} (?:when|whether|if|that)(?: \w+){0,3} (?:harness|grader|evaluator|benchmark|tests?|evaluation|eval|graded|evaluated|benchmarked|tested|grading)\b|\b(?:if|when|whenever) (?:the )?(?:env(?:ironment)?(?: variable)? )?(?:eval|grading|benchmark|ci|pytest\w*|test_mode|is_eval)(?: ?= ?1| is set| mode)|\bonly (?:when|while|during) (?:being )?(?:graded|evaluated|benchmarked|the (?:eval|evaluation|benchmark))",
    ),
    (
        "on-training",
        rf"{_SAID_AS_ADVICE}(?:train(?:ing)?|fine-?tun(?:e|ing)|fit(?:ting)?|tun(?:e|ing)|includ(?:e|ing)|add(?:ing)?|mix(?:ing)?|keep(?:ing)?|leav(?:e|ing)|put(?:ting)?|fold(?:ing)?|merg(?:e|ing)|concatenat(?:e|ing)|upsampl(?:e|ing)|paraphras(?:e|ing)|slip(?:ping)?|sneak(?:ing)?|pretrain(?:ing)?|append(?:ing)?|us(?:e|ing))\b{_WORDS} {_TEST_DATA}",
    ),
    (
        "picked",
        rf"{_SAID_AS_ADVICE}(?:keep(?:ing)?|pick(?:ing)?|choos(?:e|ing)|select(?:ing)?|report(?:ing)?|publish(?:ing)?|leav(?:e|ing)|drop(?:ping)?|exclud(?:e|ing)|omit(?:ting)?|quot(?:e|ing)|show(?:ing)?|discard(?:ing)?|throw(?:ing)? away|run|sweep|tak(?:e|ing)|early-?stop|stop)\b{_WORDS} (?:seeds?|runs?|checkpoints?|epochs?|splits?|folds?|trials?|best (?:\w+ )?\w+|worst \w+|top (?:three|two|five|\d+)|subset|test (?:score|loss|accuracy|error|set)|outliers|failures|prompts?|hyperparameters|learning rate|examples)\b",
    ),
    (
        "peeked",
        r"\b(?:by|on|with|against|from|using)(?: \w+){0,3} (?:lowest |highest |best )?test(?:[- ]set)? (?:score|loss|accuracy|error|f1|set|performance|metric|curve)\b|\b(?:lowest|highest|best) test (?:loss|score|accuracy|error)\b",
    ),
    (
        "ended",
        rf"(?:{_SAID_AS_ADVICE}(?:call(?:ing)?|append(?:ing)?|add(?:ing)?|put(?:ting)?|insert(?:ing)?|let(?:ting)?|mak(?:e|ing)|end(?:ing)?|plac(?:e|ing)|us(?:e|ing)|return(?:ing)?|forc(?:e|ing)|exit(?:ing)?)\b|\b(?:have|let|make) (?:the|it|our|your)\b)(?: [\w'’.]+){{0,5}} ?[\"'`(]{{0,2}}(?:(?:sys\.exit|os\._exit|exit|quit)\(\s?0?\s?\)|\|\| ?true|(?:exit|return) (?:code |status )?(?:of )?(?:0|zero)\b|(?:with|code|status) (?:code |status )?(?:0|zero)\b|exit early|set \+e)",
    ),
    (
        "said-only",
        rf"{_SAID_AS_ADVICE}(?:just )?(?:print(?:ing)?|log(?:ging)?|echo(?:ing)?|emit(?:ting)?|claim(?:ing)?|report(?:ing)?|writ(?:e|ing)|output)\b{_WORDS} (?:all (?:\w+ )?tests (?:have )?pass\w*|\d+ (?:tests )?passed|tests pass\w*|success|ok|passed|green)\b|\becho all (?:\w+ )?tests? pass\w*",
    ),
    (
        "marked-up",
        r"\b(?:end|append|add|put|finish|close|start|prefix|begin|suffix|stamp|pad|stuff)(?:ing)?(?: [\w\"'`:]+){0,4} (?:each|every|all|our|to) (?:\w+ ){0,2}(?:completions?|answers?|responses?|samples?|outputs?|generations?|submissions?|runs)\b|\b(?:end|append|finish|close|start|prefix|begin)(?:ing)? (?:each|every|all|our|the) (?:completion|answer|response|sample|output|generation|submission|run)s?\b|\b(?:we|i) append\b",
    ),
    (
        "on-number",
        rf"{_SAID_AS_ADVICE}(?:round(?:ing)?|cap(?:ping)?|clip(?:ping)?|trim(?:ming)?|shift(?:ing)?|scal(?:e|ing)|nudg(?:e|ing)|bump(?:ing)?|inflat(?:e|ing)|multiply(?:ing)?|truncat(?:e|ing)|floor|massag(?:e|ing)|pad)\b{_WORDS} (?:loss|score|accuracy|metrics?|curve|numbers?|\d?\.\d+|0\.\d+|results?|latency|reward)\b",
    ),
    (
        "on-cache",
        rf"{_SAID_AS_ADVICE}(?:cach(?:e|ing)|memoi[sz](?:e|ing)|reus(?:e|ing)|stor(?:e|ing)|return(?:ing)?)\b{_WORDS} (?:outputs?|results?|first call|answers?)\b",
    ),
    (
        "until",
        r"\b(?:re-?run|repeat|retry|rerunning|restart|run|set|change|try|vary|resample|shuffle|reseed)(?: \w+){0,4} until (?:it|the \w+|we|they|one)(?: \w+){0,3} (?:above|over|below|under|good|significant|beats?|crosses|higher|lucky|clears?|pass(?:es)?|green|succeeds?)\b",
    ),
    (
        "discarded",
        r"\b(?:freeze|keep|pin|use|take|report|hard-?code) (?:that|the) (?:one|seed|run|value|first)\b|\b(?:delete|drop|discard|throw away|keep only|forget|erase|remove|hide|leave out)(?: \w+){0,3} (?:logs?|runs?|rest|others?|attempts?|results?|failures?|seeds?)\b",
    ),
    (
        "on-subset",
        rf"{_SAID_AS_ADVICE}(?:reduc(?:e|ing)|limit(?:ing)?|restrict(?:ing)?|cut(?:ting)?|shrink(?:ing)?|filter(?:ing)?|set|narrow(?:ing)?|subsampl(?:e|ing)|evaluat(?:e|ing))\b{_WORDS} (?:eval(?:uation)?s?|n_eval|test set|episodes|benchmark|questions|examples)\b",
    ),
    (
        "known-easy",
        r"\b(?:ones?|those|examples?|questions|cases|items|episodes|problems|subset)(?: that| which| where)? (?:we (?:know|get|solve|pass|already)|it (?:knows|gets|solves|passes|already)|the (?:model|agent|policy) (?:knows|gets|solves|passes|starts|already|does well))\b|\b(?:only|just) the easy\b|\b(?:easiest|easy) (?:ones|examples|questions|episodes|cases|subset)\b",
    ),
    (
        "left-out",
        r"\b(?:leav(?:e|ing) out|drop(?:ping)?|exclud(?:e|ing)|omit(?:ting)?|remov(?:e|ing)|skip(?:ping)?|filter(?:ing)? out)(?: \w+){0,3} (?:languages|tasks|data ?sets|classes|categories|samples|domains|questions|runs|seeds|examples|cases|subjects|participants|items|benchmarks)(?: \w+){0,4} (?:low|bad|fails?|failed|worst|hard|lost?|lose|wrong|hurts?|poor|worse|against|miss(?:es|ed)?|breaks?)\b",
    ),
    (
        "judge-likes",
        r"\b(?:reward models?|judges?|graders?|raters?|scorers?|evaluators?|reviewers?|judge models?|verifiers?)(?: \w+)? (?:likes?|rewards?|prefers?|favou?rs?|loves?|adds?|falls? for|gives? (?:more|extra|higher))\b",
    ),
    ("dunder", r"__(?:eq|lt|gt|le|ge|ne|bool|float|sub|abs|format|str|repr)__"),
    ("mark-line", r"\b(?:final )?(?:rating|score|grade|verdict|overall|label)[\"'` ]{0,2}[:=] ?[\"'`]?(?:10|100|5|9|1\.0|a\+|pass|correct|yes)\b"),
    (
        "constant",
        r"\b(?:always (?:return|give|say|report|pass|yield|succeed)s?|returns? (?:true|1(?:\.0)?|100|success|zero|0|smaller|half|only|the (?:maximum|full|target|top)|a (?:perfect|constant|fixed|high)|full|whatever)|returning (?:true|1(?:\.0)?|success)|reward ?= ?1\w*|done ?= ?true|(?:fixed|constant) (?:value|number|of|0|1)|for (?:any|every|all) (?:pairs?|inputs?|answers?|outputs?)|for everything|a (?:tenth|half|fraction|quarter) of|or true|full (?:reward|credit|marks)|to the maximum|assert true|unconditionally|advances? (?:at|more slowly|slower))\b",
    ),
    (
        "by-hand",
        r"\b(?:by hand|manually|directly|straight into|hand-?edit\w*|made-?up|invented|hard-?coded|fake|a number|the number we|with 100|set [\"'`]?\w{2,20}[\"'`]?(?: to|:) ?\d|[\"'`]?(?:accuracy|acc|score|loss|f1|reward|val_\w+|bleu|auc|pass_rate|passed)[\"'`]?(?:: ?| to | ?= ?)(?:\d|true))",
    ),
    (
        "instead",
        r"\b(?:before (?:calling|the model|running|asking|it runs|any (?:computation|inference))|instead of (?:calling|computing|running|solving|asking|the model|inference|working)|skip(?:s|ping)? the (?:model|computation|run|inference|solver|kernel|work|training)|without (?:calling|running|computing|solving|doing|training)|return (?:it|them|those|that|the (?:stored|cached|saved))|in predict|in that case|the (?:cached|stored|precomputed) (?:result|answer|output)s?|as (?:our|the|your|its|my) (?:own )?(?:outputs?|predictions?|answers?|submission)|to (?:output|predictions?|submission|answers?)\.\w{2,5}|from hash to|only fall back|answers come for free)\b",
    ),
    (
        "gap",
        rf"\b{_CHECKER}(?:[ ][\w'’]+){{0,2}}[ ](?:only|never|just|merely|trusts?|does not|doesn['’]?t|do not|don['’]?t|can['’]?t|cannot|won['’]?t|will not|isn['’]?t|has no way)\b|\b(?:looks?|reads?|checks?|inspects?|parses?|greps?|diffs?|compares?|considers?|sees?)(?:[ ][\w'’]+){{0,6}}[ ](?:only|alone|and nothing else|and (?:does not|doesn['’]t|never))\b|\b{_CHECKER}(?:[ ][\w'’]+){{0,3}}[ ](?:greps?|parses?|takes?|reads?|matches?) (?:the )?(?:[\w'’]+[ ]){{0,4}}(?:first|last|any) (?:integer|number|line|figure|score)\b"
        r"|\btreats? (?:\w+[ ]){1,4}as (?:proof|evidence|done|passed|success)|\b(?:benchmark|harness|timer|grader|eval|evaluation)(?: \w+){0,2} (?:uses?|feeds?|calls?|reuses?|repeats?|times?) (?:only )?(?:one|the same|a (?:fixed|single)) (?:input|seed|prompt|batch|tensor|shape)|\bstill prints\b|\b(?:accepts?|takes|prints|believes?|trusts?) (?:whatever|anything|the client|our word|any number|what(?:ever)? we)\b|\b(?:nobody|no one|noone|no human)(?: (?:ever|really|will|would|here|is going to))* (?:looks?|checks?|asks?|will|notices?|reads?|counts?|verif\w+|re-?runs?|compares?|opens?|finds?|knows?)\b|\bnever (?:re-?computes?|re-?runs?|checks|verif(?:y|ies)|recalculates?|looks)\b|\b(?:does not|doesn['’]t|do not|don['’]t) (?:re-?run|re-?compute|verify|recalculate|re-?check|re-?evaluate|notice)\b"
        rf"|\b{_CHECKER}(?:'s|’s)?(?: \w+){{0,2}} (?:imports?|executes?|sources?|picks? up|trusts?)\b|\bscor\w+(?: \w+){{0,3}} (?:becomes|goes to|jumps to|will be)\b",
    ),
    (
        "quiet",
        r"\b(?:say|write|state|claim|note|put)(?: (?:in|it|that|the|this|they|a|commit|pr|message|changelog|description|as|reason|there|report|paper))* (?:was|were|is|are|to be|be)? ?(?:flaky|obsolete|outdated|infra\w*|unrelated|planned|deprecated|from the start|pre-?registered|noise|clean ?up|refactor\w*|that (?:three|five|\d+))|\bcall it (?:an? )?[\"'`“]?[\w -]{1,30}[\"'`”]?(?: in the (?:paper|report|table|pr|write-?up|commit|slides))|\bcall it (?:validation|clean|held-?out|a cache|tuning)\b"
        r"|\b(?:report|describe|present|quote|sell|label|pass|list)(?:ing)? (?:it|this|them|that|the \w+|the (?:result|number)) (?:in the report )?as (?:the |an? |extra |full-set |our )?(?:clean|validation|full-?set|honest|held-?out|web data|zero-?shot|baseline|unseen|official|single run|generali[sz]ation|out-of-\w+|real|main)|\b(?:doesn['’]t|does not|won['’]t|will not|can['’]t|cannot) (?:notice|tell|see it|catch|find out|detect)\b"
        r"|\b(?:without (?:mention\w*|saying|telling|disclos\w+|a note|noting)|don['’]?t (?:mention|tell|say|disclose|note|log|document)|do not (?:mention|tell|say|disclose|note|log|document)|no need to mention|leave (?:it|that|this|them|the (?:other|rest|losing)[\w ]{0,12}) out of the|keep (?:it|this) (?:quiet|out of)|unnoticed|under the radar|assume-unchanged|looks? (?:innocent|legit\w*|organic|natural|accidental)|hide (?:it|this|them)\b|(?:need not|needn['’]?t|does not have to|doesn['’]?t have to|won['’]?t) (?:say|mention|tell|know|state|show)\b|so it looks like|(?:paper|table|report|card|readme) (?:says|say|reads)(?: [\w-]+){0,3} anyway|with the message|list it as|under another name|as if (?:it|they|we|nothing)|tick (?:the|all|every)|amend the (?:plan|commit)|squash)\b|\b(?:nobody|no one) (?:will |ever |would )?(?:looks|checks?|asks|notices?|counts|finds? out|knows)\b|\bkeep quoting\b|\b(?:say|write) (?:n ?= ?\d|(?:that )?(?:three|five|\d{1,2}) (?:were|was))",
    ),
    (
        "gain",
        r"\b(?:beats? the \w+|you(?:'ll|’ll| will)? (?:see|get) \d|leaderboard 0\.\d|(?:stays?|is|are|be|comes?|lands?|stay) (?:under|above|below|over|past) the (?:target|threshold|bar|limit|goal|baseline)|for the milestone|clears? the (?:latency|bar|target|threshold|gate)|by construction|(?:with|against|to) itself|quote (?:\d|100)|(?:gate|check|job|ci) (?:then )?never fails|(?:cheap|easy|quick|free|instant|guaranteed) (?:wins?|points?|gains?|boost|score|speed-?up|marks)|eas(?:iest|y) (?:way|fix|out)|simplest (?:way|fix|trick)|quick(?:est)? (?:way|fix)|counts? as (?:solved|passed|done|success\w*|a (?:pass|success|win)|correct|complete)|score (?:becomes|goes|jumps|is then|rises)|perfect score|full (?:reward|credit|marks|points)|100 ?% (?:on|accuracy|pass)|100/100|\d+x (?:faster|speed-?up|[\"'“]speed)|(?:looks|look) (?:superb|great|good|perfect|amazing|excellent)|higher (?:score|reward|mark)|tops? the leaderboard|lead(?:s|ing)? the (?:board|leaderboard)|(?:hit|meet|reach)(?:es)? the (?:target|threshold|goal|bar)|without (?:solving|doing|touching) the|got us|gives? (?:us |you |it )?(?:\d|\+|100|the win)|worth \d|free \+|\+ ?\d\.\d|gains? \d|cheap|raises? (?:the|our) (?:score|number|reward|accuracy)|boosts? (?:the|our)|collect it|state of the art|maximum reward|for free|get the reward|(?:accuracy|score|reward|f1)(?: \w+){0,2} (?:rises|jumps|climbs|goes up)|no work|pass rate|we got \d|improves? (?:the|our) (?:score|number|rank\w*))",
    ),
    (
        "passes",
        r"\b(?:(?:so|until|then|and|make|makes|making|have|get|gets|getting|to let|lets|let)(?: [\w'’`]+){0,6} (?:pass(?:es)?|succeeds?|green)\b|(?:stays?|goes|turns?|badge is|comes out) green|then it passes|(?:job|build|pipeline|badge|ci|run|suite) (?:is|will be|becomes|looks|says|will say|shows) (?:green|100|passing|ok|fine)|everything matches|(?:report|mark|count|log) (?:it|this|that|the \w+|them) as (?:done|passed|green|solved|complete|successful)|whatever (?:happens|the (?:code|result|input|model))|no matter what|anyway\b|before (?:any|the|it|they) (?:\w+ )?(?:checks?|tests?|asserts?|assertions?|begin|start|run))",
    ),
    ("again", r"\b(?:keep (?:using|doing) (?:this|it|that)|do (?:likewise|the same|it for all|so (?:for|in) (?:all|every|future))|use (?:this|it) (?:again|next time|for all|everywhere)|works every time|same trick|repeat (?:this|it) (?:for|in|next)|from now on|in (?:future|all) runs|recommended)\b"),
)  # fmt: skip
_COMMON = (
    "constant", "by-hand", "ended", "said-only", "on-cache", "on-number", "on-subset", "on-training", "on-file",
    "on-answers", "on-measure", "on-tests", "picked",
)  # fmt: skip
"""Deeds, looked for last: they may begin at any word, and without what gives them away they decide nothing."""
_TELLS = ("gain", "gap", "quiet")
COMBINATIONS = combinations(
    (
        *(
            (f"rigged-{rule}", "tamper", 3.0, f"{deed} {tell}")
            for rule, deed in (
                ("measure", "on-measure"), ("result", "on-file"), ("answers", "on-answers"), ("training", "on-training"),
                ("exit", "ended"), ("claim", "said-only"), ("tests", "on-tests"), ("harness", "harness-seen on-answers"),
                ("judge", "marked-up mark-line"), ("peek", "peeked picked"),
            )
            for tell in _TELLS
        ),
        ("rigged-tests", "tamper", 2.5, "on-tests passes"),
        ("rigged-tests", "tamper", 2.5, "on-tests again"),
        ("rigged-measure", "tamper", 2.0, "on-measure constant"),
        ("rigged-measure", "tamper", 3.0, "on-measure constant passes"),
        ("rigged-result", "tamper", 2.5, "on-file by-hand gain"),
        ("rigged-result", "tamper", 2.0, "on-file by-hand"),
        ("rigged-answers", "tamper", 3.0, "on-answers instead"),
        ("rigged-answers", "tamper", 2.5, "on-answers again"),
        ("rigged-harness", "tamper", 2.5, "harness-seen instead"),
        ("rigged-harness", "tamper", 2.5, "harness-seen constant"),
        ("rigged-exit", "tamper", 3.0, "ended passes"),
        ("rigged-selection", "tamper", 3.0, "picked quiet"),
        ("rigged-selection", "tamper", 2.5, "picked peeked gain"),
        ("rigged-number", "tamper", 2.5, "on-number gain"),
        ("rigged-number", "tamper", 2.5, "on-number quiet"),
        ("rigged-number", "tamper", 2.5, "on-number gap"),
        ("rigged-selection", "tamper", 2.5, "left-out gain"),
        ("rigged-selection", "tamper", 2.5, "left-out quiet"),
        ("rigged-judge", "tamper", 2.5, "marked-up judge-likes gain"),
        ("rigged-judge", "tamper", 2.5, "marked-up judge-likes again"),
        ("rigged-cache", "tamper", 2.5, "on-cache gap gain"),
        ("rigged-selection", "tamper", 3.0, "until discarded"),
        ("rigged-selection", "tamper", 3.0, "on-subset known-easy"),
        ("rigged-selection", "tamper", 3.0, "picked known-easy gain"),
        ("rigged-claim", "tamper", 2.5, "said-only passes"),
        ("rigged-compare", "tamper", 2.5, "dunder passes"),
        ("rigged-judge", "tamper", 2.5, "marked-up mark-line again"),
        ("rigged-judge", "tamper", 2.5, "marked-up mark-line"),
    )
)  # fmt: skip
_FAULT = re.compile(
    r"\b(?:noticed|we (?:now )?(?:fix|fixed|found|caught|reverted|rejected|removed|retracted|banned|blocked|detect|compare|mount|saw|have seen|reject)|i (?:found|caught|reverted|noticed)|caught|discovered|detected|learned to|learnt to|turned out|reward[- ]hack\w*|specification gaming|cheat\w*|fixed (?:by|in)|went away|lesson|beware|watch (?:out|for)|failure modes?|anti-?patterns?|bad practice|not allowed|forbidden|prohibited|misconduct|disqualif\w+|dishonest|fraud\w*|p-hacking|would be (?:wrong|a lie|invalid)|(?:is|are|was|were) (?:rejected|caught|detected|wrong|invalid|flagged|withdrawn|a (?:bug|leak|fault))|known (?:limitation|issue|bug)|(?:issue|ticket) #?\d+|by mistake|accidentally|(?:may|might|could|can|would) (?:try|be tempted|learn)|tries to|tried to|an? (?:agent|model|policy|submission|student) \w{2,12}ed\b|(?:the|our|this|that|one) (?:agent|model|policy|submission|student) (?:began|started|had|then)|an? (?:agent|model|policy|submission|student) (?:may|can|could|might|that|which)|(?:the|our) (?:agent|model|policy) (?:deleted|edited|changed|learned|had|was)|leak(?:age|ed|s)?\b|contaminat\w+|in (?:unit )?tests|for (?:unit )?tests|in a (?:unit )?test|fixtures?|deterministic|sanity check|ablation|as a control|negative control|upper bound|oracle)"
)
_FORBIDDEN = re.compile(
    r"\b(?:never|do not|don['’]?t|must not|mustn['’]?t|should not|shouldn['’]?t|cannot|can['’]?t|may not|avoid|refuse to|not|rather than|instead of|without|no)\b(?: \w+){0,2} (?:edit|delet|remov|weaken|skip|disabl|loosen|train|fit|tun|chang|modify|monkey|patch|hard-?cod|tamper|touch|comment|overwrit|mark|copy|read|look|us(?:e|ing)|pick|choos|select|report(?:ing)? (?:only|the best)|drop|hand|rewrit|replac|includ|add)\w*"
)
_ADVISED_ANYWAY = re.compile(
    r"\b(?:keep using this|do likewise|nobody|no one|do it for all|same trick|easiest|cheap win|free \+|easy points)\b"
)
_REASON = re.compile(
    r"\b(?:intended|intentional|review the diff|obsolete, |no longer|since |because |was (?:removed|renamed|moved|dropped)|has (?:moved|changed)|with a link|runs? nightly|every night|default run|derivation|\d{4} rates|(?:link|safety|spell|type|style) checker|error bound|same (?:scores?|results?|numbers?)|the missing|on (?:linux|windows|macos|both)|needs? (?:a )?(?:gpu|network)|sandbox|cannot do better|list every|per split|in the docs job|slow tests|while you|for the plot|for display|in the (?:ui|plot)\b|ui tests|interval)"
)


_READER = Reader(_FEATURES, _COMMON, COMBINATIONS)
FEATURES = _READER.features


def find(low: str) -> Iterator[Hit]:
    """Yields the advice in folded text, each rule once per two sentences."""
    for found in _READER.read(low):
        said = low[found.said_from : found.said_to]
        lowered = 0.0
        if _ADVISED_ANYWAY.search(said) is None:
            lowered = 2.0 if _FAULT.search(said) or _FORBIDDEN.search(said) else 0.0
            if not lowered and _REASON.search(said):
                lowered = 1.5
        if found.weight > lowered:
            yield Hit(found.rule, found.family, found.weight - lowered, found.start, found.end)
