"""What is known to be a secret is taken out, and what is none stays."""

from __future__ import annotations

import pytest

from perpetual.toolkit.redact import MASK, is_secret_name, redact_text, redact_value, redact_words


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD", "DB_PASS", "PGPASSWORD", "GH_TOKEN",
     "APIKEY", "NETRC_CREDENTIALS", "session-cookie", "SENTRY_DSN", "Authorization", "PRIVATEKEY", "api.key",
     "MYSQL_PWD", "WANDB_API_KEY", "x-auth-token"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)
    assert redact_value(name, "hunter2") == MASK
    assert redact_value(name, "") == ""


@pytest.mark.parametrize(
    "name",
    ["PATH", "PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "CUDA_VISIBLE_DEVICES", "MONKEY_PATCH", "KEYBOARD",
     "COMPASS_URL", "PYTHONHASHSEED", "AUTHOR", "OMP_NUM_THREADS", "PERPETUAL_SEED", "LR", "TOKENS_PER_STEP",
     "PAD_TOKEN_ID", "KEY_DIM", "SSH_AUTH_SOCK"],
)  # fmt: skip
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:hunter2@host/x.git", f"https://{MASK}@host/x.git"),
        ("https://ghtoken@host/x", f"https://{MASK}@host/x"),
        ("https://a:b@c@host/x", f"https://{MASK}@host/x"),
        ("ssh://git@host:22/x.git", "ssh://git@host:22/x.git"),
        ("ssh://git:hunter2@host/x.git", f"ssh://{MASK}@host/x.git"),
        ("git@host:x.git", "git@host:x.git"),
        ("postgres://u:p@db/x https://h/?a=1&token=abc&b=2", f"postgres://{MASK}@db/x https://h/?a=1&token={MASK}&b=2"),
        ("https://host/a@b", "https://host/a@b"),
        ("ghp_" + "a" * 36, MASK),
        ("key is sk-proj-" + "a1B2" * 8 + ".", f"key is {MASK}."),
        ("AKIA" + "ABCDEFGHIJKLMNOP", MASK),
        ("hf_" + "a" * 34, MASK),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abc-_def", MASK),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nrest", f"{MASK}\nrest"),
        ("Authorization: Bearer abc.DEF-123", f"Authorization: Bearer {MASK}"),
        ("authorization: bearer abc", f"authorization: bearer {MASK}"),
        ("'PROXY-AUTHORIZATION':'basic dTpw'", f"'PROXY-AUTHORIZATION':'basic {MASK}'"),
        ("authorization: hunter2", f"authorization: {MASK}"),
        ("X-Api-Key: hunter2, accept: json", f"X-Api-Key: {MASK}, accept: json"),
        ("bearer a8F3kd93jfKD02mfQz71", f"bearer {MASK}"),
        ("the bearer of bad news lost 3 experiments", "the bearer of bad news lost 3 experiments"),
        ("Bearer authentication-was-switched-off", "Bearer authentication-was-switched-off"),
        ("task-specific-adapter-of-a-long-name", "task-specific-adapter-of-a-long-name"),
        ("0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_words_of_a_command() -> None:
    words = ["python", "train.py", "--api-key", "hunter2", "--token=abc", "API_KEY=x", "--lr", "0.1", "--auth",
             "--seed", "1", "lr=0.1", "https://u:p@h/x", "--password=", "x"]  # fmt: skip
    assert redact_words(words) == [
        "python", "train.py", "--api-key", MASK, f"--token={MASK}", f"API_KEY={MASK}", "--lr", "0.1", "--auth",
        "--seed", "1", "lr=0.1", f"https://{MASK}@h/x", "--password=", "x",
    ]  # fmt: skip
