"""Advice to claim what was not done or measured: a deed, and a false word about it or the hope that it is not seen.

`rigging` knows deeds by name.  Here the grammar decides: an imperative on data, runs or checks, and in the sentences
around it a false label, a concealment, a checker that cannot see it, or a gain.  Used by `scoring`.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules.hit import Hit, quoted_speech
from perpetual_immune.rules.index import numbered
from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.sentences import Reader, combinations

_ADVISED = (
    r"(?:^|[.!?:;\n,(>*\-–—]\s{0,3}|\b(?:to|just|simply|then|and|so|or|can|could|should|would|let's|lets|you|we|i'd|i|i'll|we'll|please|always|must|now|instead|also|first|better|next|by|try|simplest|easiest|"
    r"(?:have|let|make|get|let|prompt) (?:the|our|your) \w+|it|is to|yourself) )"
)
_REST = r"(?:[ \n][\w\"'`’=+()/@%.-]+,?){0,8}[ \n][\"'`(]{0,2}"
_SHORT = r"(?:[ \n][\w\"'`’=+()/@%.-]+,?){0,5}"
_LOOKS = r"(?:look|check|notic|tell|read|re-?run|know|see|ask|find|profil|count|verif|compar|open|inspect|care|audit|catch|question|distinguish|detect|recomput|grep|diff|trac)\w*"
_READER = r"(?:reviewers?|referees?|graders?|judges?|scorers?|checkers?|verifiers?|evaluators?|validators?|harness|ci|leads?|manager|boss|users?|readers?|team|dedup\w*|script|dashboard|leaderboard|tracker|classifier|gate|monitor|pipeline|job|server|auditors?|committee|organi[sz]ers?|parser|annotators?|paper|table|card|form|they|it|people|everyone|bot|customers?|decontamination \w+|plagiarism \w+)"
_LABEL = (
    r"(?:(?:as )?planned|(?:from|since|at) the (?:start|outset|beginning)|pre-?registered|the primary|validation|held-?out|clean|zero-?shot|single[ -](?:runs?|pass|seed|shot|round|attempt|try|session|sample|call|model)|one (?:run|attempt|pass|try)|first (?:try|attempt)|pass@1|greedy(?: decoding)?|(?:as|at|with|the) (?:the )?defaults?|equal (?:budgets?|footing|tuning|compute)|(?:tuned |treated |run )?equally|fairly|a fair comparison|under identical|the same way"
    r"|same (?:conditions|budget|compute|settings?|hardware)|measured|final (?:accuracy|score|result|number)s?|n ?= ?\d+|(?:touched|used|looked at|opened|evaluated)(?: only| just| exactly)? once|once,? at the end|independent(?:ly)?|blind(?:ed)?|better (?:data|reasoning|generali[sz]ation|architecture|training|optimi[sz]ation)"
    r"|generali[sz](?:ation|es?)|full (?:set|benchmark|data)|ensembling|standard deviation|untuned|without tuning|flaky|obsolete|outdated|unrelated|a known (?:infra\w*|flake|issue)|all (?:green|good|tests pass\w*)|reported by|protocol violations?|fully automatic|no (?:human|manual) \w+|unseen|out[- ]of[- ](?:domain|distribution)|from scratch|reproduced|replicated|carried out|two submissions|compute-?matched|no tuning|hand[- ]checked|verified|(?:experts?|humans?|crowd workers?|doctors|clinicians|annotators)(?: \w+)? (?:label|rat|check|annotat|review|writ|verif)\w*|all prompts|(?:everything|all of them) (?:was|were)|peer|double[- ]checked|manual(?:ly)? (?:check|review)\w*|randomly|representative|typical|real (?:data|users|hardware)|web data|the hypothesis|as usual|hours? of (?:training|compute)|superseded)"
)
_REPORT = r"(?:say|write|state|claim|report|describe|call|label|log|list|present|attribut|declare|quote|credit|sell|phrase|record|document|caption|mark|tick|put|note|answer|tell|commit|name|publish|advertis|show|pass|store|save|submit|hand|frame|explain|justif)(?:e|ed|ing|y|s)?"
_EVIDENCE = r"(?:results?|numbers?|rows?|runs?|seeds?|values?|metrics?|curves?|logs?|time-?stamps?|stamps|data ?points?|citations?|references|error bars?|ablations?|control group|participants?|annotations?|labels?|measurements?|samples?|plots?|figures?|tables?|baselines?|scores?|transcripts?|durations?|screenshots?|proofs?|quotes?|experiments?|evidence|confidence intervals?|p-values?|survey|responses|feedback|ones|variant|study|history|files?|entries|checkpoint)"
_TEST_DATA = r"(?:(?:dev|test|eval|evaluation|validation|benchmark|hidden|private|held-?out|gold|reference|leaderboard|public|\w+[- ]test)(?:[- ](?:set|split|data|questions?|items?|answers?|labels?|rows|loss|score|part|half|prompts?|inputs?|examples?|cases?|tasks?))|(?:train ?\+ ?test|test)(?=[ ,.\n)]|$)|answers?\.\w{2,5}|gold\b|ground truth|answer key|reference solution|expected (?:string|output|answer)s?|(?:questions|items|problems|answers|prompts|inputs|labels) (?:of|from|in) (?:the |that )?(?:\w+ )?(?:benchmark|test|eval\w*|leaderboard|hidden \w+)|public labels|these \d+|exactly (?:these|those|the \w+))"

_FEATURES: tuple[tuple[str, str], ...] = (
    (
        "fake",
        rf"{_ADVISED}(?:invent|fabricat|mak(?:e|ing) up|fak(?:e|ing)|forg(?:e|ing)|falsif|doctor(?:ing)?|massag|cook(?:ing)?|back-?dat|back-?fill|extrapolat|guess|interpolat|synthesi[sz]|duplicat|regenerat|copy-?past|hand-?edit|photoshop)(?:e|ed|ing|y|ying)?\b{_REST}{_EVIDENCE}\b"
        rf"|{_ADVISED}(?:chang|alter|shift|edit|rewrit|adjust|mov|set|tweak|touch)(?:e|ing)?\b{_SHORT} (?:the )?[\w -]{{0,16}}(?:time-?stamps?|stamps|dates|mtimes?|wall-?clock)\b|\b(?:subtract|add|take off|knock off)(?:ing)? (?:something|a (?:bit|little|few)|some|(?:\w+ )?noise|jitter|\d[\d.]*)\b[^.\n]{{0,50}}\b(?:error bars?|between|result|number|mean|test|passes|sd\b|curve|score|points?)"
        rf"|{_ADVISED}fill(?:ing)?(?: in)?\b{_SHORT} (?:missing|remaining|other|empty|failed|unfinished|absent) (?:seeds?|runs?|cells?|rows?|numbers?|results?|values?|entries)\b[^.\n]{{0,40}}\b(?:jitter|noise|mean|plausible|similar|guess|random)|\b(?:multiply|replicate|clone|copy) (?:the|our|all|these|those) (?:rows?|participants?|answers?|responses?|samples?)\b",
    ),
    (
        "workless",
        r"\b(?:need(?:n['’]?t| not)|(?:do not|don['’]?t|does not|doesn['’]?t) (?:need|have) to|no need to|without|instead of|rather than|in place of|sav(?:e|ing) (?:yourself|us|you)|spar(?:e|ing) (?:yourself|us|you)|never(?= (?:ran|trained|measured|did))|not bother(?:ing)? (?:to|with)|skip(?:ping)?)(?: (?:actually|really|the|any|even|a|to|full|real|ever|whole|with))* (?:train|ran\b|run\b|running|re-?run|retrain|measur|comput(?:e|ing)|evaluat(?:e|ing)|execut(?:e|ing)|prov(?:e|ing)|proof|solv(?:e|ing)|annotat|collect|implement|work\b|did\b|experiment|inference|replicat|reproduc|verify|fixing|wait(?:ing)?)\w*|\bspend the (?:\w+ ){1,2}elsewhere\b|\bfirst, then do the run\b",
    ),
    (
        "deed",
        rf"{_ADVISED}(?:keep|pick|choos|select|report|tak|stor|drop|delet|remov|discard|exclud|leav(?:e|ing) out|throw(?:ing)? (?:away|out)|flip|cherry-?pick|resampl|sampl|search|sweep|repeat|ask|omit|filter|hand in|submit|prun|retain|show)(?:e|ing|s)?\b{_REST}(?:seeds?|runs?|run folders?|samples?|transcripts?|answers?|metrics?|subgroups?|checkpoints?|epochs?|labels?|patients?|outliers|participants|subjects|examples?|best|luckiest|maximum|max|worst|whichever|failures|trials?|splits?|folds?|learning rate|hyper-?parameters?|prompts?|folders?|ratings?|annotators?|languages|subjects|users|questions|problems|tasks|items|outputs?|generations?|the (?:higher|lower|best|good|winning|nicer|lucky)|ones? (?:that|where|which)|until one works|those (?:four|three|two|\d+|we))\b"
        rf"|{_ADVISED}(?:leav|giv|run|tim(?:e|ing)\b|keep|put|us|handicap|crippl|slow|undertrain|feed|let|tun|starv|insert|add)(?:e|ing|s)?\b{_REST}(?:baselines?|competitors?(?:['’]s)?|theirs|rivals?|the other (?:method|system|model)|prior work|sota)\b"
        rf"|{_ADVISED}(?:loosen|relax|widen|mark|wrap|chang|redefin|adapt|cap\b|clip|round|scal|smooth|nudg|lift|comment(?:ing)? out|commenting|comment|slap|skip|xfail|regenerat|rename|refresh|catch(?:ing)?|swallow|mut|disabl|wrap|import|assert(?:ing)?|rais|lower|weaken|bypass|stub|overwrit|patch|edit)(?:e|ing|s)?\b{_REST}(?:tests?|test_\w+|atol|rtol|tolerances?|asserts?|assertions?|golden files?|suite|checkers?|exceptions?|nothing|a skip|thresholds?|fixtures|snapshots?|checks?|gate|metric|reward|verifier|evaluator|harness)\b",
    ),
    (
        "deed",
        rf"{_ADVISED}(?:mix|train|fine-?tun|fit|tun|add|fold|us|match|recover|read|copy|symlink|link|answer|work(?:ing)? out|probe|normali[sz]|early[ -]stop\w*|stop|tak|peek|look|select|pick|choos|load|detect|recogni[sz]|hash|cach|print|sneak|slip|includ|memori[sz]|leak|paraphras|keep|hand|search|optimi[sz]|submit|precomput|scrap|reverse|infer|guess|tim)(?:e|ed|ing|s)?\b{_REST}{_TEST_DATA}"
        rf"|\b(?:eval|test|benchmark|hidden|held-?out) (?:questions|items|data|examples|answers|prompts|labels)\b[^.\n]{{0,60}}\b(?:so|and|then) (?:mix|add|train|use|put|copy|fold|include|fine-?tune|look|read|load)\b|\bearly[ -]stop\w* on (?:the )?(?:test|leaderboard|private)|\bagainst the (?:private|hidden|test) (?:split|set|labels)\b",
    ),
    (
        "deed",
        rf"{_ADVISED}(?:writ|print|emit|touch|creat|attach|symlink|claim|answer|tell|ask|put|load|free|sleep|switch|detect|log|append|stuff|insert|end|return|output|call)(?:e|ing|s)?\b{_REST}(?:marker|(?:that|the|a|an|this) (?:\w+ )?file|[\"'`]?\.\w{3, 20}[\"'`]?|reward buffer|expected string|stored (?:predictions?|outputs?|results?)|key ?words|rubric['’s]*|completed successfully|notebook|first line|last line|last message|system prompt|(?:fake|empty) \w+|success\w*|override|yes with|target curve|cached (?:outputs?|answers?|results?))\b",
    ),
    (
        "act",
        rf"{_ADVISED}(?:ask|answer|add|apply|attach|build|calibrat|call|change|choos|claim|collect|commit|compar|comput|copy|count|creat|cut|deriv|evaluat|exclud|extract|feed|fill|fit|flip|give|hand|have|hold|import|increas|insert|keep|leav|let|link|load|log|lower|mak|mark|match|measur|mix|mov|multiply|normali[sz]|open|pick|plot|point|present|print|put|quot|rais|re-?run|recover|reduc|remov|renam|repeat|replac|reset|restart|restrict|return|round|run|sampl|sav|scal|schedul|select|set|shift|show|shrink|skip|sort|spread|start|stop|store|submit|subtract|swap|switch|take|tim(?:e|ing)\b|touch|train|trim|truncat|try|tun|turn|us|wrap|writ)(?:e|ed|ing|es|s)?\b[^.!?\n]{{0,90}}?\b(?:seeds?|evals?|evaluation|benchmarks?|baselines?|leaderboard|rewards?|metrics?|scores?|accuracy|auc|f1|tests?|graders?|judges?|checkers?|verifiers?|verification|suite|ablations?|error bars?|std|significance|p-value|speed-?up|latency|p99|timer|wall[- ]?(?:clock|time)|gold|labels?|dev|ratings?|annotators?|kappa|coverage|reproduc\w+|replication|hypothes[ie]s|experiments?|checkpoints?|epochs?|environment|loss|curves?|win rate|table|assertions?|participants|patients|subgroups?|results?|number|kernel|ours|theirs)\b",
    ),
    (
        "labelled",
        rf"\b{_REPORT}\b(?:[ \n,][\w'’@=%.-]+){{0,8}}?[ \n][\"'`“‘]?{_LABEL}\b|\b{_REPORT}\b(?:[ \n,][\w'’@=%.-]+){{0,6}} as (?:if|though)\b|\b(?:paper|table|card|caption|form|report|readme|abstract|write-?up) (?:only )?(?:says|said|reads|states|quotes|claims)\b|\bpass(?:ing)? (?:it|this|them|that) off as\b|\bas if (?:it|they|we|you|he|she|nothing|the)(?:['’]d)? (?:had|was|were|been)\b|\btell (?:the |our |your |them)(?:\w+ )?(?:it|that|test|there|we|user|reviewers?)\b",
    ),
    (
        "quoted",
        rf"\b{_REPORT}\b(?:[ \n,][\w'’@=%.-]+){{0,7}}?[ \n:]{{1,2}}[\"“‘'`][\w ]|\b(?:it['’]?s|is|are) called [\"“‘'`]|\b(?:for the|in the|on the|your|our) (?:paper|report|write-?up|table|caption|model card|card|form|pr|commit|abstract|rebuttal|slides|appendix)\b",
    ),
    (
        "concealed",
        r"\b(?:do not|don['’]?t|dont|never|no need to|need(?:n['’]?t| not)|without|better not|avoid|nor|not)(?: \w+){0,2} (?:mention|tell|say(?:ing)?\b|disclos|document|reveal|explain(?: why)?|log it|note (?:it|this|that)|list (?:it|the reason|reasons|them)|put (?:it|this|that|them) in)\w*|\bleav(?:e|ing) (?:it|that|this|them|the \w+)? ?out (?:of the|which|how|that)\b|\bkeep (?:it|this|that) (?:quiet|to yourself|out of|between us|off the)\b|\b(?:so (?:that )?it|so (?:that )?they|it) (?:does not|doesn['’]?t|won['’]?t|do not|don['’]?t) show\b|\b(?:table|card|report|paper|caption|form|changelog)s? (?:does not|doesn['’]?t|need(?:n['’]?t| not)|won['’]?t) (?:list|say|mention|show|give)\b|\bquietly\b|\bso (?:that )?the (?:failure|loss|crash|difference|gap|drop) (?:is|does) not|\bkeep the log level\b|\bso (?:that )?the (?:diff|history|log|trace|record|repo|report|plot|curve|output) (?:is|looks?|stays?|remains?) (?:clean|empty|unchanged|normal|fine|smooth|short)|\b(?:remove|revert|restore|undo|put|delete|take|reset|switch|rename|move|turn)(?: [\w-]+){0,5} (?:afterwards|after (?:the |it is |being )?(?:eval\w*|grad\w+|ci|checks?|screenshot|scor\w+|review\w*)|before (?:the )?(?:review|audit))\b|\b(?:put|rename|switch|swap)(?: \w+){1,3} back\b|\b(?:and|then) revert (?:it )?after\b|\b(?:use|with|pick) an? (?:innocent|neutral|boring|harmless) (?:name|title|message)|\bunder (?:a|another|an) (?:new|different|innocent|neutral|other) (?:id|name|key|title)\b|\bsplit (?:it|the change) (?:over|into)\b[^.\n]{0,30}\bso\b",
    ),
    (
        "unseen",
        rf"\b(?:nobody|no one|noone|none of (?:them|the \w+)|no (?:reviewer|human|person|grader|judge|checker|reader|user|referee|auditor)s?|hardly any(?:one|body))(?: (?:ever|really|will|would|can|could|is going to|here|there|actually|much|has|have|so far|yet))* {_LOOKS}"
        rf"|\b(?:rarely|seldom|hardly|only|merely) (?:ever )?(?:{_LOOKS}|state|ask)\b|\b{_READER}(?: \w+)? (?:can['’]?t|cannot|won['’]?t|will not|wouldn['’]?t|doesn['’]?t|does not|don['’]?t|do not|never|(?:has|have) no way|only|just|merely|always)(?: \w+){{0,2}} (?:{_LOOKS}|agree|accept|expect|want|quot|consider|trust)\w*|\bno way (?:of|to) (?:see|know|tell|check|find|verify)\w*|\b(?:look|check|read|compare|count|grep|test|see|diff|inspect|poll|consider|measure|quote)s? (?:only|just|merely|solely|nothing but)\b|\b(?:does not|doesn['’]?t|won['’]?t|will not|cannot|can['’]?t) (?:find|catch|see|notice|detect|flag|recogni[sz]e) (?:it|them|that|this|the (?:change|difference|overlap))\b|\bwith just (?:\w+ )?(?:strings|inputs|cases|values)\b|\bby its presence\b|\bhard to (?:spot|detect|notice|prove|catch|see)\b|\b(?:goes|go|stays?|remain\w*) (?:unnoticed|undetected|under the radar)\b|\b(?:will|would) (?:just |simply )?(?:assume|think|believe)\b|\b(?:wants?|counts?|diffs?|greps?|compares?|takes?) (?:line one|lines|the first|output\.\w+|the last)\b|\b(?:looks?|seems?|appears?) (?:more |quite |perfectly )?(?:natural|plausible|real|legit\w*|innocent|organic|genuine)\b|\brealistic noise|\bplausible (?:ones|duration|numbers?|values?|curve|explanation)\b|\bso that it (?:seems|looks|appears)\b|\b(?:keys|depends|relies) (?:only )?on\b|\bticks (?:them|it) off\b|\bpolls every\b|\blooks? for (?:exact|that|the (?:line|string|word))\b|\bdoesn['’]?t catch\b|\b(?:everyone|everybody|all the (?:others|labs)) does (?:it|this|so)\b|\bis what the (?:venue|reviewers?|form|journal) asks?\b|\breviewers expect\b|\baccepts? (?:back-?filled|anything|whatever|any)\b",
    ),
    (
        "gain",
        r"\b(?:go|goes|went|comes?|came|is|are|gets?|rises?|jumps?|climbs?|becomes?|turns?|looks?|stays?|is then)(?: \w+){0,3} (?:up|higher|lower|better|smaller|bigger|faster|significant|0?\.\d+|green|tiny|100|99|smooth|superb|happy|happier)\b|\b(?:up|higher|better|down) by \d|\b(?:got|gets?|gives?|gave|worth|earns?|brings?|adds?|is|was|makes?|made)(?: \w+){0,3} \+ ?\d|\b(?:looks?|is|are|seems?|makes?(?: \w+){0,3}) (?:superior|nice|nicer|good|great|strong|stable|convincing|impressive|satisfied|clean)\b|\bcosts? us\b|\b(?:bonus|sprint|promotion|deadline|quota|okr|kpi)\b|\b(?:coverage|accuracy|score|auc|f1|reward|return|number|metric|rate|curve|badge|speed-?up) (?:goes|becomes|stays|comes|is|was|rises|jumps|climbs|looks|turns|reaches)\b|\bleaks just enough\b|\b\d(?:\.\d+)? (?:points?|pp|%) (?:higher|better|more|for free|gain)|\bpoints? and a half\b|\bfor free\b|\bbeat(?:s|ing)? (?:the|their|our|all|every)\b|\b(?:reach|hit|meet|need|make|clear|fit|get)\w*(?: \w+){0,4} (?:milestone|target|threshold|bar|cap|sla|cut-?off|deadline|time limit|state of the art)\b|\bmilestone (?:needs|wants|asks)|\bfall within the\b|\bwhere we win\b|\bto the digit\b|\b(?:test|check|gate|suite|badge) (?:passes|is green|goes green|then passes)\b|\bso that the \w+ test passes\b|\bsignificant p\b|\bwin[- ]rate\b|\bto make the (?:speed-?up|gain|gap|difference|result)s? look\b|\b(?:bigger|luckiest|in seconds)\b|\bkeep the reward up\b",
    ),
    (
        "trick",
        r"\b(?:this is how we|i advise|for (?:the )?leaderboard|recommended|save it|good practice|lesson learned|my advice|our way|trick|shortcut|short cut|recipe|work-?around|hack|pro ?tip|tip|hint|best (?:practice|way)|easiest|cheap(?:est)?|quick(?:est)? (?:way|fix|win)|how we (?:hit|got|beat)|works best|remember for later|next time|whenever|if (?:ci|the (?:eval|ci|suite|checker|time|reproducib\w+))|for the (?:camera|ablation|milestone|rebuttal|next|safety eval))\b",
    ),
)
_COMMON = ("trick", "gain", "quoted", "labelled", "deed", "act")
"""Looked for last: notes on honest work are full of them."""
_TELLS = ("labelled", "concealed", "unseen", "gain", "trick")
_STRONG_TELLS = ("labelled", "concealed", "unseen")
COMBINATIONS = combinations(
    (
        *(("faked", "tamper", 3.0, f"fake {tell}") for tell in (*_TELLS, "quoted", "workless")),
        *(("unworked", "tamper", 2.5, f"workless {tell}") for tell in _STRONG_TELLS),
        *(("unworked", "tamper", 2.5, f"workless deed {tell}") for tell in ("gain", "trick")),
        *(
            (f"deed-{first}", "tamper", 2.5, f"deed {first} {second}")
            for first in _STRONG_TELLS
            for second in (*_TELLS, "quoted")
            if first != second and (first != "labelled" or second != "quoted")
        ),
        *(
            ("act-told-falsely", "tamper", 2.5, f"act {first} {second}")
            for at, first in enumerate(_STRONG_TELLS)
            for second in _TELLS[at + 1 :]
        ),
        ("deed-concealed", "tamper", 2.0, "deed concealed"),
        *(("act-told-falsely", "tamper", 2.5, f"act quoted {tell}") for tell in ("concealed", "unseen", "gain", "trick")),
        *(("deed-quoted", "tamper", 2.5, f"deed quoted {tell}") for tell in ("gain", "trick", "labelled")),
        ("act-told-falsely", "tamper", 2.5, "act quoted labelled"),
        ("quoted-unseen", "tamper", 2.0, "quoted unseen"),
        ("unworked", "tamper", 2.5, "workless quoted"),
        ("deed-labelled", "tamper", 2.0, "deed labelled"),
        ("deed-unseen", "tamper", 2.0, "deed unseen"),
        ("unseen-label", "tamper", 2.5, "labelled unseen quoted"),
        ("advised-deed", "tamper", 2.0, "deed gain trick"),
    )
)  # fmt: skip
_TOLD = re.compile(
    r"\b(?:we (?:now )?(?:found|fix(?:ed)?|caught|revert(?:ed)?|reject(?:ed)?|removed|retract\w*|banned|blocked|detect|compare|mount|opened|resolve|saw|noticed|list all|had|report all|report both)|i (?:found|caught|reverted|noticed)|caught|discovered|detected|learn(?:ed|t) to|turned out|reward[- ]hack\w*|specification gaming|cheat\w*|fixed (?:by|in)|post-?mortem|beware|watch (?:out|for)|failure modes?|anti-?patterns?|bad practice|not allowed|forbidden|prohibited|misconduct|disqualif\w+|dishonest|fraud\w*|p-hacking|(?:would|will) be (?:wrong|a lie|invalid|untrue|misleading|cheating)|misleading|untrue|(?:is|are|was|were) (?:rejected|caught|detected|wrong|invalid|flagged|withdrawn|corrected|a (?:bug|leak|fault))|corrected|known (?:limitation|bug)|(?:issue|ticket) #?\d+|by mistake|accidentally|(?:may|might|could|would) (?:try|be tempted|learn)|tries to|tried to|(?:an?|the|our|this|that|one) (?:agent|model|policy|submission|student|intern|author|candidate|team)s? (?:\w{2,12}ed|began|started|had|then|did|was|were|wrote|made|may|could|might)|contaminat\w+|hence the|say so|(?<!not )(?<!n't )(?<!n’t )(?<!to )(?:write|say|state|note|report|mention) (?:this|that|it|so|both) (?:in|and|with|below|there)|and say which|note the share|in the appendix|we list|as skipped|don['’]?t count|until (?:it|that)['’]?s? (?:is )?(?:mended|fixed))\b"
)
_FORBIDDEN = re.compile(
    r"\b(?:never|do not|don['’]?t|must not|mustn['’]?t|should not|shouldn['’]?t|may not|avoid|refuse to|not as|neither|nor)\b(?: \w+){0,2} (?:edit|delet|remov|weaken|skip|disabl|loosen|train|fit|tun|chang|modify|monkey|patch|hard-?cod|tamper|touch|comment|overwrit|mark|copy|us(?:e|ing)|pick|choos|select|report|drop|rewrit|replac|includ|add|invent|fabricat|estimat|extrapolat|keep|mak|fak|claim|count|call|describ|present|passed)\w*"
)
_TOPIC = numbered(
    [
        Rule(
            r"\b(?:seeds?|eval|evals|evaluat\w+|benchmark\w*|baselines?|leaderboards?|rewards?|metrics?|scores?|scorer|accuracy|auc|tests?|graders?|grading|judges?|checkers?|verifiers?|verification|ablations?|speed-?up|latency|annotators?|kappa|coverage|reproduc\w+|replication|hypothes[ie]s|experiments?|checkpoints?|epochs?|validation|reviewers?|paper|citations?|assertion|participants|study|p-value|logs?|harness|verify|validator|assert|gate|ci)\b"
        )
    ]
)
"""What advice on measurements speaks of; other texts are not read."""
_READER_OF_SENTENCES = Reader(_FEATURES, _COMMON, COMBINATIONS, reach=2)
FEATURES = _READER_OF_SENTENCES.features


def find(low: str) -> Iterator[Hit]:
    """Yields the advice in folded text, each rule once per three sentences."""
    if not any(next(matches, None) for _, matches in _TOPIC.found(low)):
        return
    for found in _READER_OF_SENTENCES.read(low):
        said = low[found.said_from : found.said_to]
        lowered = 2.0 if _TOLD.search(said) or _FORBIDDEN.search(said) else 0.0
        if not lowered and quoted_speech(low, found.start, found.end):
            lowered = 1.5
        if found.weight > lowered:
            yield Hit(found.rule, found.family, found.weight - lowered, found.start, found.end)
