"""The bundled notifiers keep the promises of their slot, with real servers and programs."""

from __future__ import annotations

import email
import email.policy
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError, Secret, TransientError
from perpetual_daemon.companion import Companion
from perpetual_daemon.testing import CompanionContract
from perpetual_notify.acting import try_out
from perpetual_notify.companion import build as build_companion
from perpetual_notify.desktop import Desktop
from perpetual_notify.mail import Mail
from perpetual_notify.notifier import Notifier
from perpetual_notify.program import Program
from perpetual_notify.testing import DeliveryContract, NotifierContract, example, hostile
from perpetual_notify.webhook import Webhook
from tests.plugins.notify.servers import Post, Web, mail_server, web_server

KEY, PASSWORD = "k3y-of-the-hook", "p4ssword-of-the-mail"
SHORT_S = 0.4  # after which a silent server is given up


def secret(value: str) -> Secret:
    return Secret("plugins.test", lambda: value)


class TestCompanion(CompanionContract):
    """What sends while the daemon runs, with a notifier that is configured and accepted."""

    @pytest.fixture
    def companion(self) -> Companion:
        return build_companion({})

    def prepare(self, lab: Lab) -> None:
        lab.settings.set_config("plugins.notify.notifiers", "command")
        lab.settings.set_config("plugins.notifier.command.argv", '["true"]')
        try_out(lab, accepts=True)
        lab.loop.stopped("all_decided", 1)


class _OfWeb(DeliveryContract):
    shape = "json"

    @pytest.fixture
    def web(self) -> Iterator[Web]:
        with web_server() as web:
            yield web

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return (KEY, "s3cret-path")

    @pytest.fixture
    def notifier(self, web: Web) -> Notifier:
        return Webhook(f"{web.url}/s3cret-path", secret=secret(KEY), shape=self.shape, timeout_s=SHORT_S)

    @pytest.fixture
    def arrived(self, web: Web) -> Callable[[], Sequence[str]]:
        return lambda: [json.dumps(json.loads(got.body), ensure_ascii=False) for got in web.got]


class TestWebhook(_OfWeb):
    pass


class TestNtfy(_OfWeb):
    shape = "ntfy"


class TestSlack(_OfWeb):
    shape = "slack"


class TestMail(DeliveryContract):
    @pytest.fixture
    def post(self) -> Iterator[Post]:
        with mail_server() as post:
            post.password = PASSWORD
            yield post

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return (PASSWORD,)

    @pytest.fixture
    def notifier(self, post: Post) -> Notifier:
        return Mail("127.0.0.1", ["you@lab.example"], port=post.port, security="none", user="me",
                    password=secret(PASSWORD), timeout_s=SHORT_S)  # fmt: skip

    @pytest.fixture
    def arrived(self, post: Post) -> Callable[[], Sequence[str]]:
        def read(text: str) -> str:
            mail = email.message_from_string(text, policy=email.policy.default)
            head = "\n".join(f"{name}: {value}" for name, value in mail.items())
            return f"{head}\n\n{mail.get_content()}"

        return lambda: [read(text) for text in post.mails]


class TestProgram(DeliveryContract):
    @pytest.fixture
    def notifier(self, tmp_path: Path) -> Notifier:
        program = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
        return Program([sys.executable, "-c", program, str(tmp_path / "got")], timeout_s=5)

    @pytest.fixture
    def arrived(self, tmp_path: Path) -> Callable[[], Sequence[str]]:
        return lambda: (tmp_path / "got").read_text().splitlines()


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """A stand-in for the desktop's program, since no desktop is here; answers the words of each call."""
    program = tmp_path / "bin" / "notify-send"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >> {tmp_path}/got\nprintf "\\1" >> {tmp_path}/got\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(sys, "platform", "linux")
    return lambda: [call.split("\0")[:-1] for call in (tmp_path / "got").read_text().split("\1") if call]


class TestDesktop(NotifierContract):
    @pytest.fixture
    def notifier(self, shown: object) -> Notifier:
        return Desktop(limit_s=5)

    def test_it_is_shown(self, notifier: Notifier, shown: Callable[[], list[list[str]]]) -> None:
        notifier.send(example())
        text = "h1 is supported\nwarm-up helps\nconfidence 0.97"
        assert shown() == [["--app-name=perpetual", "--", "perpetual a lab", text]]

    def test_hostile_text_is_shown_as_text(self, notifier: Notifier, shown: Callable[[], list[list[str]]]) -> None:
        """A hostile text becomes no option of the program and no markup, and is cut to what a desktop shows."""
        notifier.send(hostile())
        ((_, dashes, title, text),) = shown()
        assert dashes == "--"
        assert title.startswith("perpetual ")
        assert not set("<>&\x1b") & set(text)
        assert len(text) <= 300

    def test_no_desktop_is_an_error_with_a_way_out(self, notifier: Notifier, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("DISPLAY")
        with pytest.raises(PerpetualError, match="no desktop is here") as raised:
            notifier.send(example())
        assert "webhook" in str(raised.value.hint)

    def test_a_program_that_fails_is_named(self, notifier: Notifier, shown: object, tmp_path: Path) -> None:
        (tmp_path / "bin" / "notify-send").write_text("#!/bin/sh\necho no bus >&2\nexit 3\n")
        with pytest.raises(TransientError, match="ended with 3: no bus"):
            notifier.send(example())
