"""What a candidate may change: patterns, and each reason to refuse a difference before anything runs."""

from __future__ import annotations

import pytest

from perpetual.api import Refused, UsageError
from perpetual_campaign.repository import Changed
from perpetual_campaign.scope import Scope, check, checked_patterns, covers

SCOPE = Scope(["src", "train.py", "conf/*.yaml"], ["src/eval", "*.lock", "test_*"], 3, 1000)


@pytest.mark.parametrize(
    ("pattern", "path", "is_covered"),
    [
        ("train.py", "train.py", True),
        ("train.py", "deep/train.py", False),
        ("src", "src/a/b.py", True),
        ("src/**", "src/a/b.py", True),
        ("src/*", "src/a/b.py", True),  # the folder src/a
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("**/b.py", "src/a/b.py", True),
        ("**", "anything/at/all", True),
        ("src", "srcs/a.py", False),
    ],
)
def test_a_pattern_covers_a_path_or_a_folder_above_it(pattern: str, path: str, is_covered: bool) -> None:
    assert covers(pattern, path) is is_covered


@pytest.mark.parametrize("pattern", ["", "  ", "/etc", "~/x", "../x", "a/../b", "a\nb", "x" * 201])
def test_a_pattern_that_leads_out_of_the_project_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="--edit"):
        checked_patterns([pattern], "--edit")


def test_files_in_scope_pass_by_their_names_from_the_project() -> None:
    changes = [Changed("app/train.py", "100644", 10), Changed("app/src/new.py", "100755", 5)]
    assert check(changes, SCOPE, "app") == ["train.py", "src/new.py"]


def changed(path: str, mode: str = "100644", size: int | None = 10) -> list[Changed]:
    return [Changed(path, mode, size)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([], "no_change"),
        (changed("README.md"), "out_of_scope"),
        (changed("src/eval/score.py"), "protected"),
        (changed("src/eval/score.py", "", None), "protected"),  # removing it
        (changed("src/uv.lock"), "protected"),
        (changed("src/deep/test_model.py"), "protected"),
        (changed("src/.gitattributes"), "protected"),
        (changed("src/.GIT/config"), "protected"),
        (changed(".gitmodules"), "protected"),
        (changed("src/link", "120000"), "link"),
        (changed("src/module", "160000"), "submodule"),
        (changed("src/nested/", "160000"), "submodule"),
        (changed("src/../../x.py"), "outside"),
        (changed("/etc/passwd"), "outside"),
        (changed("src/a\x1b[2Jb.py"), "outside"),
        (changed("src/big.bin", size=1001), "too_large"),
        ([Changed(f"src/{n}.py", "100644", 1) for n in range(4)], "too_large"),
    ],
)
def test_each_reason_has_its_code(changes: list[Changed], code: str) -> None:
    with pytest.raises(Refused) as problem:
        check(changes, SCOPE, "")
    assert problem.value.code == code
    assert problem.value.hint
    assert "\x1b" not in str(problem.value)


def test_a_file_above_the_project_is_outside() -> None:
    with pytest.raises(Refused) as problem:
        check(changed("train.py"), SCOPE, "app")
    assert problem.value.code == "outside"
