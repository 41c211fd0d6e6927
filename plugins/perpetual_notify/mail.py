"""The notifier `email`: a mail by the user's own mail server."""

from __future__ import annotations

import contextlib
import json
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from email.utils import format_datetime

from perpetual.api import ConfigError, PerpetualError, Secret, TransientError, line
from perpetual.toolkit.hosts import is_loopback
from perpetual_notify.notifier import Notice, Notifier

__all__ = ["Mail", "build", "message"]

_PORTS = {"starttls": 587, "ssl": 465, "none": 25}
_MOST_SHOWN = 3


class Mail(Notifier):
    """Sends each notice as a mail, to all of its addresses or to none."""

    def __init__(
        self, host: str | None, to: Sequence[str], *, port: int | None = None, security: str = "starttls",
        user: str | None = None, password: Secret | None = None, sender: str | None = None, allow_plain: bool = False,
        timeout_s: float = 15.0,
    ) -> None:  # fmt: skip
        self._host, self._to, self._security = host, [*to], security
        self._port = port or _PORTS[security]
        self._user, self._password, self._allow_plain = user, password, allow_plain
        self._sender = sender or (user if user and "@" in user else to[0] if to else "")
        self._timeout_s = timeout_s
        self.limit_s = 4 * timeout_s

    def where(self) -> str:
        """Returns the addresses and the server."""
        host = self._checked()
        more = f" and {len(self._to) - _MOST_SHOWN} more" if len(self._to) > _MOST_SHOWN else ""
        return line(f"mail to {', '.join(self._to[:_MOST_SHOWN])}{more} by {host}:{self._port} ({self._security})")

    def target(self) -> str:
        """Returns the server, how it is spoken to, and the addresses."""
        return json.dumps([self._checked(), self._port, self._security, self._user, self._sender, self._to])

    def _checked(self) -> str:
        """Returns the server's name; raises ConfigError for what is missing or wrong."""
        host = self._host
        if not host or not self._to:
            missing = "to" if host else "host"
            value = "you@example.org" if host else "smtp.example.org"
            raise ConfigError(f"plugins.email.{missing} is not set",
                              hint=f"perpetual config set plugins.email.{missing} {value}")  # fmt: skip
        if not host.isascii() or not host.isprintable() or " " in host:
            raise ConfigError(f"plugins.email.host is no name of a server: {line(host)}")
        for one in (*self._to, self._sender):
            local, at, domain = one.rpartition("@")
            if not (local and at and domain) or not one.isascii() or not one.isprintable() or set(one) & set(" <>,;"):
                raise ConfigError(f"{line(one)} is no mail address", hint="plugins.email.to takes you@example.org")
        if self._security == "none" and not is_loopback(host) and not self._allow_plain:
            raise ConfigError(f"mail to {line(host)} would not be encrypted",
                              hint="perpetual config set plugins.email.security starttls")  # fmt: skip
        if self._password is not None and not self._user:
            raise ConfigError("plugins.email.password needs plugins.email.user")
        return host

    def send(self, notice: Notice) -> None:
        """Sends the mail; nothing is sent where the server turns one of the addresses down."""
        host = self._checked()
        mail = message(notice, self._sender, self._to)
        password = "" if self._password is None else self._password.reveal()
        place = f"{host}:{self._port}"
        server: smtplib.SMTP | None = None
        try:
            server = self._connected(host)
            if self._user and self._password is not None:
                server.login(self._user, password)
            code, said = server.mail(self._sender)
            if code != 250:
                raise smtplib.SMTPSenderRefused(code, said, self._sender)
            for one in self._to:
                code, said = server.rcpt(one)
                if code not in (250, 251):
                    raise smtplib.SMTPRecipientsRefused({one: (code, said)})
            code, said = server.data(mail.as_bytes())
            if code != 250:
                raise smtplib.SMTPDataError(code, said)
        except smtplib.SMTPAuthenticationError as problem:
            raise PerpetualError(f"{place} takes no login as {line(self._user)}: {_said(problem.smtp_error)}",
                                 hint="check plugins.email.user and plugins.email.password") from None  # fmt: skip
        except smtplib.SMTPRecipientsRefused as problem:
            one, (code, said) = next(iter(problem.recipients.items()))
            raise _by_code(code, f"{place} turns down {line(one)}: {code} {_said(said)}") from None
        except smtplib.SMTPResponseException as problem:
            raise _by_code(problem.smtp_code,
                           f"{place} answered {problem.smtp_code} {_said(problem.smtp_error)}") from None  # fmt: skip
        except smtplib.SMTPNotSupportedError as problem:
            hint = "plugins.email.security says how the connection is encrypted"
            raise PerpetualError(f"{place} cannot do that: {line(problem)}", hint=hint) from None
        except ssl.SSLCertVerificationError as problem:
            raise PerpetualError(f"the certificate of {place} is not valid: {line(problem.verify_message)}",
                                 hint="SSL_CERT_FILE=PATH names further certificate authorities") from None  # fmt: skip
        except TimeoutError:
            raise TransientError(f"{place} did not answer within {self._timeout_s:g} s") from None
        except (OSError, smtplib.SMTPException) as problem:
            why = line(getattr(problem, "strerror", None) or problem)
            raise TransientError(f"{place} cannot be reached: {why}") from None
        finally:
            if server is not None:
                with contextlib.suppress(OSError, smtplib.SMTPException):
                    server.quit()
                server.close()

    def _connected(self, host: str) -> smtplib.SMTP:
        if self._security == "ssl":
            return smtplib.SMTP_SSL(host, self._port, timeout=self._timeout_s, context=ssl.create_default_context())
        server = smtplib.SMTP(host, self._port, timeout=self._timeout_s)
        try:
            if self._security == "starttls":
                server.starttls(context=ssl.create_default_context())
            server.ehlo_or_helo_if_needed()
        except BaseException:
            server.close()
            raise
        return server


def message(notice: Notice, sender: str, to: Sequence[str]) -> EmailMessage:
    """Returns the mail of a notice; its Message-ID is made of the notice's id, so that a repetition is known."""
    from datetime import datetime

    mail = EmailMessage()
    mail["Subject"] = f"[{notice.project}] {notice.title}"
    mail["From"], mail["To"] = sender, ", ".join(to)
    mail["Date"] = format_datetime(datetime.fromisoformat(notice.time))
    mail["Message-ID"] = f"<{notice.id}@perpetual.invalid>"
    mail["X-Perpetual-Id"] = notice.id
    mail["Auto-Submitted"] = "auto-generated"
    text = f"{notice.title}\n\n{notice.text}\n\n-- \n{notice.project}, {notice.time}, {notice.id}\n"
    mail.set_content(text.encode("utf-8", "replace").decode())
    return mail


def _by_code(code: int, message: str) -> PerpetualError:
    return TransientError(message) if 400 <= code < 500 else PerpetualError(message)


def _said(text: bytes | str) -> str:
    return line(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)[:120]


def build(options: Mapping[str, object]) -> Mail:
    """Builds the notifier."""
    host, to, port, user = options["host"], options["to"], options["port"], options["user"]
    password, sender, timeout_s = options["password"], options["sender"], options["timeout_s"]
    assert host is None or isinstance(host, str)
    assert isinstance(to, list)
    assert port is None or isinstance(port, int)
    assert user is None or isinstance(user, str)
    assert password is None or isinstance(password, Secret)
    assert sender is None or isinstance(sender, str)
    assert isinstance(timeout_s, (int, float))
    return Mail(host, [*map(str, to)], port=port, security=str(options["security"]), user=user, password=password,
                sender=sender, allow_plain=bool(options["allow_plain"]), timeout_s=float(timeout_s))  # fmt: skip
