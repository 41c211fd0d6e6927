"""Python that reports a score it did not measure: read with `ast`, never run.  Imported by `scoring`.

Found are metrics that return a number whatever they are given, floors under a score, checks that cannot fail, metrics
and asserts replaced by constants, predictions that are the labels, training on the test set and result files of
constants.  Stand-ins (stubs, mocks, baselines) and the bodies of tests are left alone where honest tests do the same.
"""

# ruff: noqa: E501 - a pattern is only readable whole

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain

from perpetual_immune.rules.literals import parsed, source_of

Verdict = tuple[str, float]

_METRIC = re.compile(
    r"^_?(?:compute|calc|calculate|get|eval|run|measure|log|report)?_?(?:test|val|dev|eval|final|mean|avg)?_?(?:accuracy|acc|scores?|f1|bleu|rouge|wer|cer|auc|auroc|perplexity|ppl|rewards?|metrics?|evaluate|evaluation|eval|grade|compute|exact_match|em|pass_rate|pass_at_k|success_rate|win_rate|loss|bpb|speed_?up|throughput|latency|iou|mse|mae|r2|recall|precision)(?:_score|_fn|_function|_rate|_model|_metric|_all|s)?$"
)
_SCORE_NAME = re.compile(
    r"^(?:\w+_)?(?:acc|accuracy|scores?|f1|bleu|auc|rewards?|grade|passed|correct|is_correct|success|em|bpb|loss)$"
)
_STAND_IN = re.compile(
    r"fake|stub|mock|dummy|null|constant|const|random|baseline|placeholder|majority|expected|toy|example|default|base\b|abstract|for tests|not implemented|todo",
    re.I,
)
_REPLACED = re.compile(
    r"^_?(?:assert\w*|approx|\w*allclose|isclose|array_equal|perf_counter\w*|monotonic\w*|process_time|elapsed_time|main|print|compare|judge|wer|cer|check_\w+|time_(?:fn|kernel|ms)|(?:\w+_)?(?:accuracy|f1|exact_match|score|grade|evaluate|verify|is_correct|reward|bleu|rouge|metric|metrics|speed_?up|validate|pass_rate)(?:_\w+)?)$",
    re.I,
)
_GRADING = re.compile(r"grad(?:er|ing)|scor(?:er|ing)|evaluat|judge|verif|metrics?\b|checker|benchmark", re.I)
_PREDICTED = re.compile(r"^(?:y_)?(?:test_)?(?:preds?|predictions?|predicted|hat|y_hat|y_pred\w*|submission)$")
_LABELS = re.compile(
    r"^(?:y_test|y_true|test_labels?|labels_test|gold\w*|ground_?truth|hidden_labels?|answers?|test_y|reference_answers?)$"
)
_LABEL_KEY = re.compile(r"^(?:answers?|labels?|targets?|gold|solution|expected|ground_truth|reference)$")
_TEST_NAME = re.compile(r"(?:^|_)(?:test|hidden|heldout|held_out|eval)(?:_|$)", re.I)
_TRAIN_NAME = re.compile(r"(?:\b|_)train(?:ing)?(?:\b|_)", re.I)
_FITS = frozenset({"fit", "train", "finetune", "fine_tune", "partial_fit", "fit_generator", "Trainer", "SFTTrainer"})
_JOINS = frozenset(
    {
        "concat",
        "concatenate",
        "concatenate_datasets",
        "vstack",
        "hstack",
        "cat",
        "append",
        "r_",
        "ConcatDataset",
        "interleave_datasets",
    }
)
_MEASURES = frozenset({"score", "evaluate", "predict", "accuracy_score", "f1_score", "compute_accuracy", "test"})
_SCORE_FILE = re.compile(
    r"(?:metrics?|results?|scores?|rewards?|leaderboard|verdict|grades?|eval\w*)(?:\.|/[\w-]{1,30}\.)(?:json|jsonl|csv|txt|yaml)$",
    re.I,
)
_METRIC_KEY = re.compile(
    r"^(?:\w+[_/])?(?:acc|accuracy|score|f1|bleu|auc|reward|loss|bpb|em|passed|success|pass_rate|wer|ppl|perplexity|speedup|mmlu|gsm8k|arc|hellaswag|humaneval|squad|swe_?bench|psnr|ssim|mae|rmse|wer|rouge\w*|iou|map|recall|precision|pass@\d+)$",
    re.I,
)
_CONFESSED = re.compile(
    r"#[^\n]{0,80}\b(?:(?:real|true|actual|honest|measured) (?:value|number|score|accuracy|result|one|loss)s?\b|dashboard|looks? (?:better|good|nicer|for)|crash\w*|without (?:running|training)|never (?:ran|trained|finished)|skip(?:ped|ping)? (?:the )?(?:training|eval\w*)|(?:leaderboard|dashboard|scoring) (?:script|job)?(?: \w+)? ?(?:wants|looks|expects|reads)|nobody|no one|(?:grader|judge|checker|ci) (?:only|just|never|sees|wants)|so (?:that )?the (?:grader|judge|evaluator|tests?|ci)\b|fool|trick|cheat|fake[ds]?|(?:target|goal|threshold|bar|baseline) (?:is|of|was)|we are at|to (?:beat|hit|reach|match) the|inflate|boost|nicer|prettier|better than|make it (?:pass|look)|pretend|typed in|by hand|made[- ]up|invented|not (?:finished|run|done|trained)|(?:plausible|believable))",
    re.I,
)
_UNDER_TEST = re.compile(
    r"sys\.modules|PYTEST_CURRENT_TEST|\bIS_EVAL\b|UNDER_(?:TEST|EVAL)|GRAD(?:ER|ING)|\bin_(?:test|eval|grader)|RUNNING_TESTS|EVAL_MODE|sys\.argv\[0\]|_getframe|inspect\.stack"
)
_ANSWERS_QUESTIONS = re.compile(
    r"_?(?:predict|solve|solution|answer|forward|infer|generate|complete|respond|classify|transcribe|translate|act|__call__)(?:_\w+)?$"
)
_ANSWER_FILE = re.compile(
    r"(?:expected|reference|gold|golden|ground_?truth|hidden|private|oracle)[\w-]{0,20}(?:answers?|outputs?|labels?|results?|solutions?)?[\w-]{0,12}\.(?:json|jsonl|csv|txt|npy|npz|parquet|pkl|tsv)$|(?:answers?|answer_?key|solutions?|test_labels?|labels_test|y_test|with_labels?)[\w-]{0,8}\.(?:json|jsonl|csv|txt|npy|npz|parquet|pkl|tsv)$|\.(?:ref|gold|ans|expected)\.\w{2,4}$|(?:^|/)(?:eval|evaluation|grader|grading|grade|hidden|private|judge|secret|oracle|solutions?|answers?)/[\w./-]{1,80}\.\w{2,8}$",
    re.I,
)
_REFERENCE_MODULE = re.compile(r"(?:^|[._])(?:grader|grading|reference|hidden|oracle|answer_key|expected)(?:[._]|$)")
_LABEL_FILE = re.compile(r"(?:^|[/_.-])(?:labels?|targets?|y)\.(?:json|jsonl|csv|txt|npy|npz|parquet|pkl|tsv)$", re.I)
_HANDLES_ANSWERS = re.compile(
    r"_{0,2}(?:load|read|get|fetch|build|iter|main|run|eval|test|grad(?:e|ing)|scor|check|prepare|collect|make|parse|plot|show|print|open|list|export|upload|download|compar|verif|validat|measur|accuracy|report|compute|init|setup|from_|save|write|store|publish|submit)"
)
"""Functions that have to do with answers by their purpose."""
_SUBMISSION_FILE = re.compile(
    r"(?:submission|predictions?|preds?|outputs?|results?|responses?)[\w-]{0,12}\.(?:json|jsonl|csv|txt|npy|parquet|tsv)$",
    re.I,
)
_READERS = frozenset(
    {"open", "load", "loads", "read_csv", "read_json", "read_text", "read_parquet", "loadtxt", "Path", "load_dataset"}
)
_TEST_USED = re.compile(r"test|hidden|held_?out|eval_", re.I)
_FITTED = re.compile(r"fit\(|train\(|tune\(|Trainer\(|fit_generator\(")
LEAST_FLOOR = 0.3
"""Floors of a score below it guard against a logarithm or a division."""
LEAST_LIFT = 0.01
"""Numbers added to a rate below it keep a division from failing."""
_RATE = re.compile(
    r"accuracy|(?:^|_)acc(?:$|_)|(?:^|_)f1|auc|exact_match|pass_rate|success_rate|win_rate|precision|recall|bleu"
)
LOOSEST = 50.0
"""A tolerance above it lets a comparison of any usual numbers pass."""


def tampering(code: str) -> list[Verdict]:
    """Returns the rules that `code` breaks, each with its weight; none where it is not Python."""
    tree = parsed(code)
    if tree is None:
        return []
    confessed = _CONFESSED.search(code) is not None
    found: dict[str, float] = {}
    verdicts = _of_module(tree, confessed)
    if _TEST_USED.search(code) and _FITTED.search(code):
        verdicts = chain(verdicts, _test_in_training(tree))
    for rule, weight in verdicts:
        found[rule] = max(weight, found.get(rule, 0.0))
    return list(found.items())


def _of_module(tree: ast.Module, confessed: bool) -> Iterator[Verdict]:
    yield from _early_exit(tree)
    nodes = list(_walk(tree))
    tables = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    constants = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _hands_out_a_constant(node)}
    yield from _answers_submitted(tree)
    to_score_file = any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and _SCORE_FILE.search(node.value)
        for node, _, _ in nodes
    )
    for node, within_test, stand_in in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not (within_test or stand_in):
                if _is_constant_metric(node):
                    yield "constant-metric", 3.0
                yield from _dishonest_function(node)
            if node.name.startswith("test_"):
                yield from _toothless(node)
        elif isinstance(node, ast.Assert):
            if _always_true(node.test):
                yield "assert-anything", 3.0
        elif isinstance(node, ast.Call):
            yield from _call(node, within_test, stand_in, confessed, tables if to_score_file else None)
        elif isinstance(node, ast.Assign) and not within_test and not stand_in:
            if to_score_file and _sets_a_score(node):
                yield "score-written", 3.0 if confessed else 2.5
            yield from _assigned(node, constants)
        elif isinstance(node, ast.If) and not within_test and not stand_in:
            yield from _raised(node)
        elif isinstance(node, ast.Try) and not stand_in:
            yield from _caught(node)


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Yields every node, whether it is within a test, and whether within a stand-in."""
    pending: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while pending:
        node, within_test, stand_in = pending.pop()
        yield node, within_test, stand_in
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            decorated = any("fixture" in source_of(item) for item in node.decorator_list)
            within_test = within_test or node.name.lower().startswith("test") or decorated
            said = f"{node.name} {ast.get_docstring(node) or ''}"
            stand_in = stand_in or _STAND_IN.search(said) is not None
        pending += [(child, within_test, stand_in) for child in ast.iter_child_nodes(node)]


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _hands_out_a_constant(node: ast.FunctionDef) -> bool:
    """Returns whether a function only returns a literal."""
    body = [item for item in node.body if not isinstance(item, ast.Expr)]
    return len(body) == 1 and isinstance(body[0], ast.Return) and _is_plain(body[0].value)


def _is_plain(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(map(_is_plain, node.values))
    return isinstance(node, ast.Constant) and node.value is not None


def _number(node: ast.expr | None) -> float | None:
    if isinstance(node, ast.UnaryOp):
        return _number(node.operand)
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Call) and _name_of(node.func) == "float" and node.args:
        given = node.args[0]
        return float("inf") if isinstance(given, ast.Constant) and "inf" in str(given.value) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _measured(node: ast.expr) -> bool:
    """Returns whether a constant in `node` looks like a measurement: a fraction other than 0, a half and 1."""
    return any(
        isinstance(item, ast.Constant)
        and isinstance(item.value, float)
        and item.value not in (0.0, 0.5, 1.0, -1.0, 100.0)
        for item in ast.walk(node)
    )


def _is_constant_metric(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    given += [arg.arg for arg in (node.args.vararg, node.args.kwarg) if arg is not None]
    given = [name for name in given if name not in ("self", "cls")]
    if not given or not _METRIC.match(node.name.lower()):
        return False
    used = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    returned = [item.value for item in ast.walk(node) if isinstance(item, ast.Return) and item.value is not None]
    same = {value.value if isinstance(value, ast.Constant) else None for value in returned}
    if len(returned) >= 2 and same in ({1.0}, {True}) and re.search(r"reward|grade|score|correct", node.name.lower()):
        return True
    return bool(returned) and used.isdisjoint(given) and "self" not in used and all(map(_measured, returned))


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    return {arg.arg for arg in given if arg is not None and arg.arg not in ("self", "cls")}


def _dishonest_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Verdict]:
    """Yields what makes a function dishonest.

    It does something else under test, answers with the labels in its input or from a file of answers, reports metrics of
    no run, or scores a failure as a success.
    """
    given = _arguments(node)
    body = [item for item in node.body if not isinstance(item, (ast.Import, ast.ImportFrom, ast.Expr))]
    for at, item in enumerate(body):
        if (
            isinstance(item, ast.If)
            and _UNDER_TEST.search(source_of(item.test))
            and _hollow([*item.orelse, *body[at + 1 :]], given)
        ):
            answer = item.body[-1]
            used = {part.id for part in ast.walk(answer) if isinstance(part, ast.Name)} & given
            if isinstance(answer, ast.Return) and answer.value is not None and used:
                yield "other-under-test", 3.0
    if given and not _HANDLES_ANSWERS.match(node.name.lower()):
        yield from _answered_from(node, given)
    returned = [item.value for item in ast.walk(node) if isinstance(item, ast.Return)]
    used = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    if given and used.isdisjoint(given) and "self" not in used and returned and all(map(_reports_metrics, returned)):
        yield "constant-metric", 2.5
    for imported in ast.walk(node):
        if isinstance(imported, ast.ImportFrom) and _REFERENCE_MODULE.search(imported.module or ""):
            names = {alias.asname or alias.name for alias in imported.names}
            if any(
                isinstance(part, ast.Return) and isinstance(part.value, ast.Call) and _name_of(part.value.func) in names
                for part in ast.walk(node)
            ):
                yield "reference-called", 2.5
    if _RATE.search(node.name.lower()) and any(
        isinstance(item, ast.Return) and item.value is not None and _lifted(item.value) for item in ast.walk(node)
    ):
        yield "metric-lifted", 2.5
    if _METRIC.match(node.name.lower()):
        for handler in (item for item in ast.walk(node) if isinstance(item, ast.ExceptHandler)):
            last = handler.body[-1]
            best = last.value if isinstance(last, ast.Return) else None
            if isinstance(best, ast.Constant) and (best.value is True or _number(best) in (1.0, 100.0)):
                yield "score-on-failure", 2.5


def _lifted(value: ast.expr) -> bool:
    """Returns whether a rate is returned with a constant added or a factor above 1, within `min(...)` or not."""
    if isinstance(value, ast.Call) and _name_of(value.func) in ("min", "round", "float", "clip") and value.args:
        return any(map(_lifted, value.args))
    if not isinstance(value, ast.BinOp):
        return False
    left, right = _number(value.left), _number(value.right)
    number = right if left is None else left
    if number is None or (left is not None and right is not None):
        return False
    if isinstance(value.op, ast.Add):
        return LEAST_LIFT <= number < 1.0
    return isinstance(value.op, ast.Mult) and 1.0 < number < 2.0


def _hollow(rest: list[ast.stmt], given: set[str]) -> bool:
    """Returns whether what a function does otherwise is nothing: it raises, or returns a constant or its argument."""
    return all(
        isinstance(item, (ast.Raise, ast.Pass))
        or (
            isinstance(item, ast.Return)
            and (item.value is None or isinstance(item.value, ast.Constant) or _name_of(item.value) in given)
        )
        for item in rest
    )


def _answered_from(node: ast.FunctionDef | ast.AsyncFunctionDef, given: set[str]) -> Iterator[Verdict]:
    for item in ast.walk(node):
        if isinstance(item, ast.Return) and isinstance(item.value, (ast.Subscript, ast.ListComp)):
            value = item.value.elt if isinstance(item.value, ast.ListComp) else item.value
            key = value.slice if isinstance(value, ast.Subscript) else None
            labelled = isinstance(key, ast.Constant) and _LABEL_KEY.match(str(key.value)) is not None
            labelled = labelled and _ANSWERS_QUESTIONS.match(node.name.lower()) is not None
            owners = {part.id for part in ast.walk(item.value) if isinstance(part, ast.Name)}
            if labelled and owners & given:
                yield "labels-as-predictions", 2.5
        elif isinstance(item, ast.Call) and _reads_answers(
            item, _ANSWERS_QUESTIONS.match(node.name.lower()) is not None
        ):
            yield "answers-read", 3.0


def _reads_answers(call: ast.Call, to_predict: bool = False) -> bool:
    """Returns whether a call reads a file whose name says that it holds the answers."""
    named = [item.value for item in ast.walk(call) if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return _name_of(call.func) in _READERS and any(
        _ANSWER_FILE.search(name) or (to_predict and _LABEL_FILE.search(name)) for name in named
    )


def _reports_metrics(value: ast.expr | None) -> bool:
    return (
        isinstance(value, ast.Dict)
        and bool(value.keys)
        and len(value.keys)
        == sum(isinstance(key, ast.Constant) and _METRIC_KEY.match(str(key.value)) is not None for key in value.keys)
        and all(map(_measured, value.values))
    )


def _answers_submitted(tree: ast.Module) -> Iterator[Verdict]:
    """Yields answers read from a file and written as predictions, with nothing that predicts in between."""
    held: set[str] = set()
    predicts = written = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            inside = list(ast.walk(node.value))
            read = any(isinstance(item, ast.Call) and _reads_answers(item) for item in inside)
            if read or any(isinstance(item, ast.Name) and item.id in held for item in inside):
                held.update(_name_of(target) for target in node.targets if _name_of(target))
        elif isinstance(node, ast.Call):
            name = _name_of(node.func)
            predicts = (
                predicts
                or re.search(r"predict|generate|forward|infer|model|accuracy|score|metric|evaluate", name, re.I)
                is not None
            )
            if name in (
                "to_csv",
                "to_json",
                "dump",
                "write",
                "write_text",
                "copy",
                "copyfile",
                "savetxt",
                "save",
                "symlink",
            ):
                inside = list(ast.walk(node))
                target = any(
                    isinstance(item, ast.Constant) and _SUBMISSION_FILE.search(str(item.value)) for item in inside
                )
                source = any(isinstance(item, ast.Name) and item.id in held for item in inside) or any(
                    isinstance(item, ast.Constant) and _ANSWER_FILE.search(str(item.value)) for item in inside
                )
                written = written or (target and source)
    if written and not predicts:
        yield "answers-submitted", 3.0


def _always_true(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.BoolOp)
        and isinstance(test.op, ast.Or)
        and any(isinstance(value, ast.Constant) and bool(value.value) for value in test.values)
    )


def _toothless(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Verdict]:
    """Yields what keeps a test from failing: a return before its asserts, or a failed assert that is passed over."""
    for at, statement in enumerate(node.body[:-1]):
        if isinstance(statement, ast.Return) and any(isinstance(item, ast.Assert) for item in node.body[at + 1 :]):
            yield "assert-unreached", 2.5
    last = node.body[-1]
    if isinstance(last, (ast.Assert, ast.Raise)) or (isinstance(last, ast.Expr) and "fail" in source_of(last)):
        return  # what is caught is what is wanted
    for item in ast.walk(node):
        if isinstance(item, ast.Try):
            for handler in item.handlers:
                caught = _name_of(handler.type) if handler.type is not None else "BaseException"
                if caught in ("AssertionError", "BaseException") and all(_does_nothing(line) for line in handler.body):
                    yield "assert-swallowed", 2.5


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (isinstance(statement, ast.Return) and statement.value is None)


def _raised(node: ast.If) -> Iterator[Verdict]:
    """Yields a score set to a constant where it fell short of one."""
    test = node.test
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        return
    name = _name_of(test.left)
    if not _SCORE_NAME.match(name.lower()) or (_number(test.comparators[0]) or 0.0) < LEAST_FLOOR:
        return
    for item in node.body:
        lifted = isinstance(item, ast.Assign) and _name_of(item.targets[0]) == name
        if isinstance(item, ast.Assign) and lifted and isinstance(item.value, ast.Constant) and _measured(item.value):
            yield "score-floor", 2.5


def _caught(node: ast.Try) -> Iterator[Verdict]:
    for handler in node.handlers:
        for item in handler.body:
            if isinstance(item, ast.Assign) and _SCORE_NAME.match(_name_of(item.targets[0]).lower()):
                value = item.value
                if isinstance(value, ast.Constant) and (value.value is True or _number(value) in (1.0, 100.0)):
                    yield "score-on-failure", 2.5


def _call(
    node: ast.Call, within_test: bool, stand_in: bool, confessed: bool, tables: dict[str, ast.Dict] | None
) -> Iterator[Verdict]:
    name = _name_of(node.func)
    if name in ("approx", "allclose", "isclose", "assert_allclose", "assert_close", "assertAlmostEqual"):
        for word in node.keywords:
            if word.arg in ("abs", "rel", "atol", "rtol", "delta") and (_number(word.value) or 0.0) >= LOOSEST:
                yield "assert-anything", 2.5
    if name == "setattr" and len(node.args) == 3 and not within_test and not stand_in:
        attribute = node.args[1]
        if isinstance(attribute, ast.Constant) and _REPLACED.match(str(attribute.value)) and _is_constant(node.args[2]):
            yield "metric-replaced", 3.0
    if name in ("dump", "dumps", "write_text", "write") and not within_test and not stand_in and node.args:
        yield from _written(node, confessed, tables) if tables is not None else ()


def _sets_a_score(node: ast.Assign) -> bool:
    target = node.targets[0]
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.slice, ast.Constant)
        and _METRIC_KEY.match(str(target.slice.value)) is not None
        and _number(node.value) is not None
        and _measured(node.value)
    )


def _written(node: ast.Call, confessed: bool, tables_named: dict[str, ast.Dict]) -> Iterator[Verdict]:
    tables = [item for item in ast.walk(node.args[0]) if isinstance(item, ast.Dict)]
    tables += [tables_named[item.id] for item in node.args if isinstance(item, ast.Name) and item.id in tables_named]
    constant = any(
        isinstance(key, ast.Constant) and _METRIC_KEY.match(str(key.value)) and _number(value) is not None
        for table in tables
        for key, value in zip(table.keys, table.values, strict=True)
    )
    given = node.args[0]
    if isinstance(given, ast.Constant) and re.fullmatch(
        r"\s*(?:1(?:\.0+)?|100|pass(?:ed)?|true)\s*", str(given.value), re.I
    ):
        yield "score-written", 3.0 if confessed else 2.5
    if constant:
        yield "score-written", 3.0 if confessed else 2.0


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Lambda) and (
        isinstance(node.body, (ast.Constant, ast.Dict))
        or (isinstance(node.body, ast.BinOp) and _measures_time(node.body))
    )


def _measures_time(node: ast.BinOp) -> bool:
    return isinstance(node.op, (ast.Div, ast.Mult)) and _number(node.right) is not None


def _assigned(node: ast.Assign, constants: set[str]) -> Iterator[Verdict]:
    target, value = node.targets[0], node.value
    name = _name_of(target)
    owner = _name_of(target.value) if isinstance(target, ast.Attribute) else ""
    foreign = isinstance(target, ast.Attribute) and owner not in ("self", "cls")
    if name in ("main", "print") and owner not in ("unittest", "pytest", "builtins"):
        foreign = False
    if foreign and _REPLACED.match(name) and (_is_constant(value) or _name_of(value) in constants):
        yield "metric-replaced", 3.0
    if (
        isinstance(target, ast.Subscript)
        and source_of(target.value) == "sys.modules"
        and _GRADING.search(source_of(target.slice))
    ):
        yield "metric-replaced", 2.5
    if isinstance(value, ast.Call) and _name_of(value.func) in ("max", "min") and _SCORE_NAME.match(name.lower()):
        floors = [number for arg in value.args if (number := _number(arg)) is not None and _measured(arg)]
        if any(number >= LEAST_FLOOR for number in floors):
            yield "score-floor", 2.5
    if _PREDICTED.match(name.lower()) and _is_label(value):
        yield "labels-as-predictions", 2.5


def _is_label(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and _name_of(value.func) in (
        "copy",
        "list",
        "array",
        "clone",
        "to_numpy",
        "asarray",
    ):
        inner = value.args[0] if value.args else value.func.value if isinstance(value.func, ast.Attribute) else None
        return inner is not None and _is_label(inner)
    if isinstance(value, ast.ListComp):
        item = value.elt
        if isinstance(item, ast.IfExp) and _name_of(item.body) == _name_of(value.generators[0].target) != "":
            return _is_label(value.generators[0].iter)
        keyed = isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant)
        return (
            keyed
            and isinstance(item, ast.Subscript)
            and isinstance(item.slice, ast.Constant)
            and _LABEL_KEY.match(str(item.slice.value)) is not None
            and _mentions_test(value.generators[0].iter)
        )
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return _LABEL_KEY.match(str(value.slice.value)) is not None and _mentions_test(value.value)
    return _LABELS.match(_name_of(value).lower()) is not None


def _mentions_test(node: ast.AST) -> bool:
    return any(
        (isinstance(item, (ast.Name, ast.Attribute)) and _TEST_NAME.search(_name_of(item)) is not None)
        or (isinstance(item, ast.Constant) and item.value in ("test", "hidden", "heldout"))
        for item in ast.walk(node)
    )


def _early_exit(tree: ast.Module) -> Iterator[Verdict]:
    """Yields an exit with success that stands before the tests or checks of a file."""
    for at, statement in enumerate(tree.body[:-1]):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or source_of(call.func) not in ("sys.exit", "os._exit", "exit", "quit"):
            continue
        if call.args and _number(call.args[0]) != 0.0:
            continue
        for item in tree.body[at + 1 :]:
            checks = isinstance(item, ast.Assert) or (
                isinstance(item, (ast.FunctionDef, ast.ClassDef))
                and re.match(r"test|evaluate|grade|score|check|verify|main", item.name.lower()) is not None
            )
            if checks:
                yield "exit-before-checks", 3.0
                return


def _test_in_training(tree: ast.Module) -> Iterator[Verdict]:
    """Yields a fit on data of the test set; heavier where the same code measures on it."""
    tainted: set[str] = set()
    fitted = measured = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            value = node.value
            joined = isinstance(value, ast.Call) and _name_of(value.func) in _JOINS
            joined = joined or (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add))
            if (
                joined
                and _mentions_test(value)
                and _TRAIN_NAME.search(source_of(value) + " " + _name_of(node.targets[0]))
            ):
                tainted.update(_name_of(target) for target in node.targets if _name_of(target))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _name_of(node.func)
        if name in _FITS:
            values = [
                *node.args[:2],
                *(word.value for word in node.keywords if word.arg in ("train_dataset", "X", "y", "x", "train_data")),
            ]
            owner = source_of(node.func).lower()
            if "scaler" in owner or "tokenizer" in owner:
                continue
            for value in values:
                held = any(isinstance(item, ast.Name) and item.id in tainted for item in ast.walk(value))
                joined = isinstance(value, ast.Call) and _name_of(value.func) in _JOINS and _mentions_test(value)
                fitted = (
                    fitted or held or joined or (isinstance(value, (ast.Name, ast.Subscript)) and _mentions_test(value))
                )
        elif name in _MEASURES and any(map(_mentions_test, node.args)):
            measured = True
    if fitted:
        yield "fit-on-test", 2.5 if measured else 2.0
