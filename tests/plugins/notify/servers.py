"""Real servers on the loopback interface for the notifiers: HTTP, with and without TLS, and SMTP."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Got:
    """A request that a server has read."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Web:
    """An HTTP server; `answer` decides the status and the headers of each request."""

    url: str = ""
    got: list[Got] = field(default_factory=list)
    answer: Callable[[Got], tuple[int, dict[str, str], bytes]] = lambda got: (200, {}, b"ok")


@contextmanager
def web_server(tls: ssl.SSLContext | None = None) -> Iterator[Web]:
    """Serves until the end of the block."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            got = Got(self.path, dict(self.headers), body)
            web.got.append(got)
            status, headers, said = web.answer(got)
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    web.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Post:
    """A mail server. `refuses` are recipients, `logins` the names and passwords that it was given."""

    port: int = 0
    mails: list[str] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    was_tls: list[bool] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    password: str | None = None
    code_of_data: str = "250 kept"
    is_silent: bool = False


@contextmanager
def mail_server(tls: ssl.SSLContext | None = None, *, at_once: bool = False) -> Iterator[Post]:
    """Serves SMTP, with STARTTLS where `tls` is given, or TLS from the beginning with `at_once`."""
    post = Post()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                self.serve()
            except (OSError, ValueError):
                return
            finally:
                self.file.close()
                self.request.close()  # of TLS it is another one than the server closes

        def serve(self) -> None:
            self.is_tls, self.recipients = False, list[str]()
            self.file = self.request.makefile("rb")
            if at_once:
                self.secure()
            if post.is_silent:
                time.sleep(20)
            self.say("220 test")
            while raw := self.file.readline():
                words = raw.decode().strip()
                getattr(self, f"do_{words[:4].lower()}", self.unknown)(words)

        def secure(self) -> None:
            assert tls is not None
            self.file.close()
            self.request = tls.wrap_socket(self.request, server_side=True)
            self.is_tls, self.file = True, self.request.makefile("rb")

        def say(self, text: str) -> None:
            self.request.sendall(text.encode() + b"\r\n")

        def unknown(self, _: str) -> None:
            self.say("502 unknown")

        def do_ehlo(self, _: str) -> None:
            more = ["250-STARTTLS"] if tls is not None and not self.is_tls else []
            self.say("\r\n".join(["250-test", *more, "250-AUTH PLAIN", "250 8BITMIME"]))

        def do_star(self, _: str) -> None:
            self.say("220 go")
            self.secure()

        def do_auth(self, words: str) -> None:
            _, name, password = base64.b64decode(words.split()[2]).decode().split("\0")
            post.logins.append((name, password))
            self.say("235 yes" if password == post.password else f"535 not {password}")

        def do_mail(self, _: str) -> None:
            self.say("250 ok")

        def do_rcpt(self, words: str) -> None:
            address = words.partition("<")[2].partition(">")[0]
            if address not in post.refuses:
                self.recipients.append(address)
            self.say(post.refuses.get(address, "250 ok"))

        def do_data(self, _: str) -> None:
            self.say("354 go")
            lines = list[bytes]()
            while (raw := self.file.readline()) not in (b".\r\n", b""):
                lines.append(raw[1:] if raw.startswith(b"..") else raw)
            if post.code_of_data.startswith("250"):
                post.mails.append(b"".join(lines).decode())
                post.recipients.append(self.recipients)
                post.was_tls.append(self.is_tls)
            self.say(post.code_of_data)

        def do_quit(self, _: str) -> None:
            self.say("221 bye")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

        def handle_error(self, *_: object) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    post.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield post
    finally:
        server.shutdown()
        server.server_close()


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Returns a server's context with a certificate for 127.0.0.1 that signs itself, and the file that trusts it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted, both = folder / "trusted.pem", folder / "server.pem"
    trusted.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    both.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + trusted.read_bytes()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context, trusted
