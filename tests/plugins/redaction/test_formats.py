"""Secrets by the formats of more vendors, by every way of writing a setting down, and values that are none.

Run by pytest.  Values are drawn at random for these tests and open nothing.
"""

from __future__ import annotations

import random
import string

import pytest

from perpetual_redaction.rules import find_secrets

_HEX = "0123456789abcdef"
_LOWER = string.ascii_lowercase + string.digits
_ALNUM = string.ascii_letters + string.digits


def _draw(alphabet: str, length: int) -> str:
    return "".join(random.Random(f"{alphabet}{length}").choices(alphabet, k=length))


_UUID = "-".join(_draw(_HEX, n) for n in (8, 4, 4, 4, 12))
TOKENS = (
    "nvapi-" + _draw(_ALNUM, 64), "lsv2_pt_" + _draw(_HEX, 32) + "_" + _draw(_HEX, 10), "pcsk_" + _draw(_ALNUM, 60),
    "tvly-" + _draw(_ALNUM, 32), "sk-or-v1-" + _draw(_HEX, 64), "fc-" + _draw(_HEX, 32), "bkua_" + _draw(_HEX, 40),
    "figd_" + _draw(_ALNUM, 40), "CFPAT-" + _draw(_ALNUM, 43), "pat-na1-" + _UUID, "sdk-" + _UUID,
    "access-production-" + _UUID, "amzn.mws." + _UUID, "squ_" + _draw(_HEX, 40), "oy2" + _draw(_LOWER, 43),
    "tskey-auth-" + _draw(_ALNUM, 12) + "-" + _draw(_ALNUM, 32), "rnd_" + _draw(_ALNUM, 32),
    "aio_" + _draw(_ALNUM, 28), "rzp_live_" + _draw(_ALNUM, 14), "AVNS_" + _draw(_ALNUM, 19),
    "mfa." + _draw(_ALNUM, 84), "1/" + _draw("123456789", 16) + ":" + _draw(_HEX, 32), "sl." + _draw(_ALNUM, 130),
    "access_token$production$" + _draw(_LOWER, 16) + "$" + _draw(_HEX, 32), "A" * 22 + _draw(_ALNUM, 80),
    "hooks.zapier.com/hooks/catch/4711/" + _draw(_LOWER, 7), "sk.eyJ" + _draw(_ALNUM, 80) + "." + _draw(_ALNUM, 22),
    "FwoGZXIvYXdzE" + _draw(_ALNUM, 120), "AAAA" + _draw(_ALNUM, 7) + ":" + _draw(_ALNUM, 140),
    "apify_api_" + _draw(_ALNUM, 36), "pk_" + _draw("123456789", 8) + "_" + _draw(string.ascii_uppercase, 32),
    _draw(_ALNUM, 42) + "AzFu" + _draw(_ALNUM, 5) + "==", _draw(_ALNUM, 60) + "/" + _draw(_ALNUM, 25) + "==",
    "M" + _draw(_ALNUM, 24) + "." + _draw(_ALNUM, 6) + "." + _draw(_ALNUM, 27), _draw(_LOWER, 32) + "-us12",
)  # fmt: skip
WRITTEN = (
    "password: correcthorse",
    "DB_PASSWORD=Tr0ub4dor&3",
    "db.password=s3cur3P@ss!",
    "<password>Kd83hs9w</password>",
    '<add key="DbPassword" value="Qp93mdk2s"/>',
    '{"name": "API_KEY", "value": "q8w7e6r5t4y3u2i1o0p9"}',
    '- name: DB_PASSWORD\n  value: "jk3Lm9Qz"',
    "The password is hunter2xyz",
    "password for the server: Wq9!kd82",
    "login with admin / password Zx81kqp0",
    "mysql -u root -pS3cr3tPw db",
    "mysql --user=root --password=S3cr3tPw1",
    'psql "host=db user=app password=Kq83ndk9 dbname=x"',
    "jdbc:mysql://db:3306/app?user=app&password=Kq83ndk9",
    "mongodb+srv://app:Kq83ndk9xx@cluster0.ab1cd.mongodb.net/test",
    "redis://:Kq83ndk9xx@cache:6379/0",
    "amqp://user:Kq83ndk9xx@mq:5672/",
    "ftp://bob:Kq83ndk9@files.host.net/",
    "requirepass Kq83ndk9xx",
    "CREATE USER app WITH PASSWORD 'Kq83ndk9xx';",
    "GRANT ALL ON *.* TO 'a'@'%' IDENTIFIED BY 'Kq83ndk9xx';",
    "db.host:5432:app:appuser:Kq83ndk9",
    "machine api.host.net login bob password Kq83ndk9",
    "//packages.example.org/:_authToken=4f3b2a1c-9d8e-4f7a-b6c5-d4e3f2a1b0c9",
    '"auth": "Ym9iOktxODNuZGs5eHg="',
    "client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFb3dJQkFBS0NBUUVB",
    '$password = ConvertTo-SecureString "Kq83ndk9!" -AsPlainText -Force',
    "net use Z: \\\\srv\\share /user:bob Kq83ndk9!",
    "cmdkey /add:srv /user:bob /pass:Kq83ndk9!",
    "sshpass -p 'Kq83ndk9' ssh bob@h",
    "echo Kq83ndk9 | sudo -S reboot",
    'client.setPassword("Kq83ndk9x");',
    'new Auth().withToken("kq83ndk9xlw02mdn38")',
    "kubectl create secret generic s --from-literal=password=Kq83ndk9x",
    "docker run -e POSTGRES_PASSWORD=Kq83ndk9x postgres",
    'curl "https://api.host.net/v1/x?api_key=k3j4h5k6j7h8g9f0d1s2"',
    "X-API-Key: 8f7d6c5b4a39281706f5e4d3c2b1a0f9",
    "codecov: 5f0c1b2a-3d4e-4f5a-8b7c-9d0e1f2a3b4c",
    'HEROKU = "5f0c1b2a-3d4e-4f5a-8b7c-9d0e1f2a3b4c"',
    "twilio_sid = 'x'; twilio = \"9f8e7d6c5b4a39281706f5e4d3c2b1a0\"",
    "aws_secret_access_key = wJq8rXUtnFEMI/K7MDENG/bPxRfiCYkq83ndk9xx",
    'secret: "4d3c2b1a0f9e8d7c6b5a"',
    "const token = 'kq83ndk9xlw02mdn38zz'",
    'os.environ["OPENAI_API_KEY"] = "kq83ndk9xlw02mdn38zz"',
    "set SECRET_KEY=kq83ndk9xlw02mdn38zz",
    "export TOKEN=kq83ndk9xlw02mdn38zz",
    'private_key = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"',
    "seed phrase: witch collapse practice feed shame open despair creek road again ice least",
    "encryption_key: 'bZr9wKq83ndk9xlw02mdn38zzQw=='",
    "SECRET_KEY = 'django-insecure-k3j4h5k6j7h8$g9f0d1s2(^x'",
    "spring.datasource.password=Kq83ndk9",
    '"password": "qweasdzxc"',
    "passwd = 'monkeydance'",
    "PGPASSWORD=Kq83ndk9 psql",
    "pass: Kq83ndk9",
    "pwd=Kq83ndk9;",
    "auth_token: kq83ndk9xlw02mdn38zz",
    "access_token=kq83ndk9xlw02mdn38zz",
)
NO_SECRETS = (
    "password: str = Field(...)",
    "password = getpass.getpass()",
    "token_embedding = nn.Embedding(50257, 768)",
    "secret_santa: list of names",
    "key: value",
    "auth: none",
    "password=password",
    'user = "bob"; password = "password"',
    'api_key = os.getenv("API_KEY")',
    "The password is stored hashed with bcrypt.",
    "The token is expired after 30 minutes.",
    "password is required",
    "commit 4f3b2a1c9d8e4f7ab6c5d4e3f2a1b0c94f3b2a1c",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "wandb run 3k2j1h4g logged",
    "github: https://github.com/org/repo",
    "openai: gpt-4o-mini-2024-07-18",
    "slack: #ml-results-2024",
    "azure: Standard_NC24ads_A100_v4",
    "key = jax.random.PRNGKey(42)",
    'cache_key = "resnet50-imagenet-v2-2024"',
    "sort_key: created_at",
    '"integrity": "sha512-qwErTyUiOpAsDfGhJkLzXcVbNm1234567890qwErTyUiOpAsDfGhJkLzXcVbNm1234567890qwErTyUiOpAs=="',
    'password: "********"',
    "PASSWORD=$DB_PASSWORD",
    "password: ${{ secrets.DB_PASSWORD }}",
    "--password <password>",
    "login --token YOUR_TOKEN",
    "https://user:pass@example.com/",
    "https://host/search?key=learning_rate&token=true",
    "token = tokenizer.decode(ids)",
    "passed: 41, failed: 2",
    "secret sharing threshold is 3 of 5",
    'SECRET_KEY = config("SECRET_KEY")',
    "huggingface: meta-llama/Llama-2-7b-hf",
    "dropbox: paper-v3-final-2024.pdf",
    "twitter: sentiment140 1.6M tweets",
    "sentry: 0.5 sampling",
    'password = "password123"',
    "run id 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "linear: nn.Linear(768, 3072)",
    "linear = 0.0001, 0.0002",
    "segment: 00012 to 00057, speaker spk_2024_03_11",
    "facebook: opt-125m-2022-05-03",
    "x-request-id: 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "git@github.com:org/repo.git",
    "echo done | sudo tee /etc/motd",
)


@pytest.mark.parametrize("token", TOKENS)
def test_a_published_format_is_found_whole(token: str) -> None:
    text = f"the job used {token} all night"
    spans = [(secret.start, secret.end) for secret in find_secrets(text)]
    assert any(start <= text.index(token) and text.index(token) + len(token) <= end for start, end in spans), spans


@pytest.mark.parametrize("text", WRITTEN)
def test_a_secret_is_found_however_it_is_written_down(text: str) -> None:
    assert [*find_secrets(text)]


@pytest.mark.parametrize("text", NO_SECRETS)
def test_a_value_of_the_trade_is_no_secret(text: str) -> None:
    assert [*find_secrets(text)] == []


def test_a_short_word_inside_a_drawn_value_makes_it_no_placeholder() -> None:
    assert [*find_secrets('service_api_token = "ziw5p6kn0fgvkprcpt6foouwx7m7irixsqkzzwdnssa"')]
    assert [*find_secrets('service_api_token = "foo-bar-1"')] == []


def test_a_private_key_may_hold_long_runs_of_one_letter() -> None:
    body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz" + _draw(_ALNUM, 64)
    assert [*find_secrets(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----")]
    dots = "." * 60
    assert not [*find_secrets(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{dots}\n-----END OPENSSH PRIVATE KEY-----")]
