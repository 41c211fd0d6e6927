"""What is known to be a secret is taken out, and what is none stays."""

from __future__ import annotations

import base64
import random
import string
import time

import pytest

from perpetual.slots.redactor import MASK
from perpetual.toolkit.redact_stream import RedactedStream
from perpetual_redaction.redactor import build

SECRETS = build({})


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD", "DB_PASS", "PGPASSWORD", "GH_TOKEN",
     "APIKEY", "NETRC_CREDENTIALS", "session-cookie", "SENTRY_DSN", "Authorization", "PRIVATEKEY", "api.key",
     "MYSQL_PWD", "WANDB_API_KEY", "x-auth-token"],
)  # fmt: skip
def test_a_secret_name_is_known(name: str) -> None:
    assert SECRETS.is_secret_name(name)
    assert SECRETS.setting(name, "hunter2") == MASK
    assert SECRETS.setting(name, "") == ""


@pytest.mark.parametrize(
    "name",
    ["PATH", "PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "CUDA_VISIBLE_DEVICES", "MONKEY_PATCH", "KEYBOARD",
     "COMPASS_URL", "PYTHONHASHSEED", "AUTHOR", "OMP_NUM_THREADS", "PERPETUAL_SEED", "LR", "TOKENS_PER_STEP",
     "PAD_TOKEN_ID", "KEY_DIM", "SSH_AUTH_SOCK"],
)  # fmt: skip
def test_an_ordinary_name_is_no_secret(name: str) -> None:
    assert not SECRETS.is_secret_name(name)


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
def test_secrets_in_a_text_are_masked(text: str, shown: str) -> None:
    assert SECRETS.text(text) == shown


def test_secrets_in_a_command_are_masked() -> None:
    words = ["python", "train.py", "--api-key", "hunter2", "--token=abc", "API_KEY=x", "--lr", "0.1", "--auth",
             "--seed", "1", "lr=0.1", "https://u:p@h/x", "--password=", "x"]  # fmt: skip
    assert SECRETS.words(words) == [
        "python", "train.py", "--api-key", MASK, f"--token={MASK}", f"API_KEY={MASK}", "--lr", "0.1", "--auth",
        "--seed", "1", "lr=0.1", f"https://{MASK}@h/x", "--password=", "x",
    ]  # fmt: skip


def _drawn(alphabet: str, length: int, seed: int = 0) -> str:
    return "".join(random.Random(length * 7 + seed).choices(alphabet, k=length))


_MIXED = string.ascii_letters + string.digits
_AWS = _drawn(_MIXED + "+/", 40, 3)
_HEX = _drawn("0123456789abcdef", 40)
_GITHUB = "ghp_" + _drawn(_MIXED, 36)
_PEM = [_drawn(_MIXED + "+/", 64, number) for number in range(4)]
_OPEN_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "\n".join(_PEM)
_RUN = base64.b64encode(f"token = {_GITHUB}".encode()).decode()


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        (_AWS, f"AWS_SECRET_ACCESS_KEY={_AWS}"),
        (_AWS, f"aws_secret_access_key = {_AWS}"),
        (_AWS, f"AKIAIOSFODNN7QWERTYZ {_AWS}"),
        (_HEX, f"wandb login {_HEX}"),
        (_HEX, f"export WANDB_API_KEY='{_HEX}'"),
        ("sk_live_" + _drawn(_MIXED, 24), "stripe sk_live_" + _drawn(_MIXED, 24)),
        ("npm_" + _drawn(_MIXED, 36), "//registry.example/:_authToken=npm_" + _drawn(_MIXED, 36)),
        ("pypi-AgEIcHlwaS5vcmc" + _drawn(_MIXED, 80), "pypi-AgEIcHlwaS5vcmc" + _drawn(_MIXED, 80)),
        ("sk-ant-api03-" + _drawn(_MIXED, 95), f"use sk-ant-api03-{_drawn(_MIXED, 95)} now"),
        ("AIza" + _drawn(_MIXED, 35), "AIza" + _drawn(_MIXED, 35)),
        ("hunter2hunter2", '{"api_key": "hunter2hunter2"}'),
        ("Zk83kq0Pq", '{"password": "Zk83kq0Pq", "lr": 0.1}'),
        ("q8Wn3z", '{\\"client_secret\\": \\"q8Wn3z\\"}'),
        ("vK9pQ2xLm4", "db:\n  password: vK9pQ2xLm4\n"),
        ("Tr0ub4dor&3xKq!", "python x.py -p Tr0ub4dor&3xKq!"),
        ("s3cretPass", "mysqldump -uroot -ps3cretPass db"),
        ("S3cr3tPw", "curl -u bob:S3cr3tPw https://x"),
        (_PEM[1], f"here:\n{_OPEN_KEY}"),
        (_PEM[3], f"{_OPEN_KEY}\n-----END OPENSSH PRIVATE KEY-----\nend"),
        ("Qm9Lr3Xk7Vt2Zp5W", "Authorization: Bearer Qm9Lr3Xk7Vt2Zp5W"),
        ("abcdefgh12345678", "bearer abcdefgh12345678"),
        ("p4ss", "postgres://u:p4ss@db/x"),
        ("Tr0ub4dor&3xKq!", "the password is Tr0ub4dor&3xKq!."),
        (_GITHUB[20:], f"token {_GITHUB[:20]}\n{_GITHUB[20:]} end"),
        (_GITHUB[25:], f"x {_GITHUB[:25]}\\\n    {_GITHUB[25:]}"),
        (_GITHUB[22:], f"> {_GITHUB[:22]}\n> {_GITHUB[22:]}"),
        (_GITHUB[-8:], f"{_GITHUB[:10]}\u200b{_GITHUB[10:]}"),
        (_RUN, f"x {_RUN}"),
        ("s3cr3t9", "https://h/p?access_token=s3cr3t9&x=1"),
        ("k3yk3yk3y", 'curl -H "X-Api-Key: k3yk3yk3y" u'),
    ],
)
def test_a_secret_of_every_form_is_masked(secret: str, text: str) -> None:
    shown = SECRETS.text(text)
    assert secret not in shown
    assert MASK in shown
    assert SECRETS.text(shown) == shown
    if "\u200b" in text:
        assert shown == MASK


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --lr 3e-4 --batch 64 --seed 1 --key-dim 64 --token-dim 512",
        "commit 0123456789abcdef0123456789abcdef01234567 sha256:" + _drawn("0123456789abcdef", 64),
        "/home/lab/data/imagenet/train-00001-of-00064.tar s3://bucket/imagenet/part-0001.parquet",
        "meta-llama/Llama-3.1-8B-Instruct google/gemma-2-27b-it sk-learn-compatible",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Er==",
        '{"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "[UNK]", "sort_key": "val_acc_top1"}',
        "tokens=1024 max_tokens=4096 tokens/s: 12345.6 the token is 50256 tokenizer=gpt2 key=val_loss",
        "the secret is more data; password is required; no password given; best key: lr; attention key: q_proj",
        "docker run -u 1000:1000 -p 127.0.0.1:80:80 x; papermill -p alpha 0.6 -p run_name exp12",
        "uuid 123e4567-e89b-12d3-a456-426614174000 GPU-8f6d7a3b-1c2d-4e5f-8a9b-0c1d2e3f4a5b",
        "rng_key=42 secret=42 HF_TOKEN is not set, set HF_TOKEN=$HF_TOKEN or api_key_file=/run/secrets/k1",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert SECRETS.text(text) == text
    assert not SECRETS.in_command(text)


def test_secrets_in_json_are_masked() -> None:
    config = {"lr": 0.1, "api_key": "hunter2", "pad_token": "<pad>", "db": {"password": "x1y2z3"},
              "argv": ["--token", "a1b2c3d4"], "note": f"use {_GITHUB}", "max_tokens": 5, "key": "loss"}  # fmt: skip
    assert SECRETS.value(config) == {
        "lr": 0.1, "api_key": MASK, "pad_token": "<pad>", "db": {"password": MASK}, "argv": ["--token", MASK],
        "note": f"use {MASK}", "max_tokens": 5, "key": "loss",
    }  # fmt: skip
    assert SECRETS.environment({"HF_TOKEN": "x", "LR": "0.1"}) == {"HF_TOKEN": MASK, "LR": "0.1"}


@pytest.mark.parametrize(
    "command",
    ["train.py --api-key hunter2", "train.py --password=hunter2", f"train.py --note {_GITHUB}", "x -u bob:S3cr3tPw!x",
     "env API_KEY=hunter2 train.py", "curl -H 'Authorization: Bearer abc.DEF-123' u", "mysql -ps3cretPass db",
     "sh -c 'WANDB_API_KEY=a1b2c3d4 python train.py'"],
)  # fmt: skip
def test_commands_that_hold_a_secret(command: str) -> None:
    assert SECRETS.in_command(command)


@pytest.mark.parametrize(
    "command",
    ["python train.py --lr 0.1", "x --token $TOKEN", "x --key val_loss", "x --tokens 100", "x --sort-key val_acc1",
     "tool -p 8080 -u root", "sh -c 'echo $WANDB_API_KEY'", "x --api-key-file k.txt", "x --eos-token '</s>'"],
)  # fmt: skip
def test_a_command_without_a_secret_holds_none(command: str) -> None:
    assert not SECRETS.in_command(command)


def test_the_place_of_a_secret_is_named_and_its_value_is_not() -> None:
    assert SECRETS.in_variables({"LR": "0.1", "A_TOKEN": "s3"}) == "A_TOKEN"
    assert SECRETS.in_variables({"LR": "0.1", "NOTE": "x"}) is None
    assert SECRETS.in_value({"a": [{"b": _GITHUB}]}) == "a[0].b"
    assert SECRETS.in_value({"db": {"password": "hunter2"}}) == "db.password"
    assert SECRETS.in_value({"lr": 0.1, "pad_token": "<pad>", "key": "loss"}) is None


def test_a_followed_text_is_redacted_across_its_pieces() -> None:
    text = f"start\n{_OPEN_KEY}\n-----END OPENSSH PRIVATE KEY-----\ntoken {_GITHUB}\nlast"
    stream = RedactedStream(SECRETS.text)
    shown = "".join([*(stream.feed(text[at : at + 7]) for at in range(0, len(text), 7)), stream.end()])
    assert shown == f"start\n{MASK}\ntoken {MASK}\nlast"


@pytest.mark.parametrize(
    "unit",
    ["token_", "pass.", "password = ", "-u a:b ", "key=", "x" * 40 + "\n", "eyJ", "-----BEGIN PRIVATE KEY-----",
     "http://", "-p aB3$aB3$ ", "ghp_aB3\n", "\\n", "token: ", "& a=b", "authorization: bearer ", "\uff47",
     "A1/" * 20 + " AKIAIOSFODNN7QWERTYZ "],
)  # fmt: skip
def test_redaction_takes_linear_time(unit: str) -> None:
    def lasting(length: int) -> float:
        text = (unit * length)[:length]
        times = []
        for _ in range(3):
            begun = time.process_time()
            SECRETS.text(text)
            times.append(time.process_time() - begun)
        return min(times)

    assert lasting(10_000) < 10 * lasting(2_500) + 0.05  # beyond what is remembered


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ('{"verdict": "PASS", "feedback": "add tests"}', '{"verdict": "PASS", "feedback": "add tests"}'),
        ('{"kind":"password","strategy" : 1}', '{"kind":"password","strategy" : 1}'),
        ('["--pass", "hunter22"]', f'["--pass", "{MASK}"]'),
        ('("password", "hunter22")', f'("password", "{MASK}")'),
    ],
)
def test_the_next_key_of_an_object_is_no_value_of_the_word_before(text: str, redacted: str) -> None:
    """A word that names secrets may be a value itself, with the next key after the comma."""
    assert SECRETS.text(text) == redacted
