"""A harness without a model: speaks ACP, or prints lines as Claude Code does, and behaves as its first argument says.

    python agent.py acp answer          the Agent Client Protocol on standard input and output
    python agent.py lines answer [ID]   one turn in the lines of Claude Code; ID goes on with a session

It imitates what is below a dispatcher: the program. Sessions lie in `.sessions` of its working folder. Nothing but the
standard library is imported, so that it starts fast.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["ANSWER", "BEHAVIOURS", "main"]

ANSWER = "The answer is 42."
BEHAVIOURS = ("answer", "sums", "hang", "leave", "ask", "tool", "die", "login", "silent", "spend", "unknown",
              "environment", "server", "garbage", "wordy")  # fmt: skip
_SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
_USD = 0.25  # of each prompt


def main() -> int:
    """Serves one way of speaking; returns the exit status."""
    way, behaviour, *more = sys.argv[1:]
    (_Acp if way == "acp" else _Lines)(behaviour, more).serve()
    return 0


class _Harness:
    """What both ways share."""

    def __init__(self, behaviour: str, more: list[str]) -> None:
        self.behaviour, self.more = behaviour, more
        self.session = ""
        self.prompts = 0
        self.servers: list[dict[str, object]] = []

    def open(self, session: str | None) -> bool:
        """Opens a session; returns whether it is there."""
        folder = Path(".sessions")
        folder.mkdir(exist_ok=True)
        if session is None:
            self.session = f"s-{os.getpid()}-{time.monotonic_ns()}"
        elif not (folder / session).exists():
            return False
        else:
            self.session = session
            self.prompts = int((folder / session).read_text())
        self.prompts += 1
        (folder / self.session).write_text(str(self.prompts))
        return True

    def behave(self) -> str | None:
        """Does what the behaviour says before the answer; returns the text, None where there is none."""
        if self.behaviour == "hang":
            subprocess.Popen(_SLEEP)
            time.sleep(600)
        if self.behaviour == "leave":
            subprocess.Popen(_SLEEP, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)  # fmt: skip
        if self.behaviour == "die":
            os._exit(9)
        if self.behaviour == "environment":
            return json.dumps(dict(os.environ))
        if self.behaviour == "wordy":
            return "word " * 400_000
        return None if self.behaviour == "silent" else f"{ANSWER} (prompt {self.prompts})"

    def speak_to_servers(self) -> None:
        """Asks each MCP server that was handed over for its tools."""
        for server in self.servers:
            given = server["env"]
            own = {one["name"]: one["value"] for one in given} if isinstance(given, list) else given
            assert isinstance(own, dict)
            arguments = server["args"]
            assert isinstance(arguments, list)
            hello = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "agent", "version": "1"},
            }
            lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
                     {"jsonrpc": "2.0", "method": "notifications/initialized"},
                     {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]  # fmt: skip
            process = subprocess.Popen([str(server["command"]), *arguments], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, env={**os.environ, **own})  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            for line in lines:
                process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            process.stdout.readline()
            process.stdout.readline()
            process.stdin.close()
            process.wait()


class _Acp(_Harness):
    """The Agent Client Protocol, version 1."""

    def serve(self) -> None:
        """Answers requests until the input ends."""
        for line in sys.stdin:
            message = json.loads(line)
            if "method" in message:
                self._take(message)

    def _send(self, **message: object) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def _update(self, **update: object) -> None:
        self._send(method="session/update", params={"sessionId": self.session, "update": update})

    def _take(self, message: dict[str, object]) -> None:
        id, method, given = message.get("id"), message["method"], message.get("params")
        parameters = given if isinstance(given, dict) else {}
        if method == "initialize":
            abilities = {"loadSession": False, "sessionCapabilities": {"resume": {}}}
            self._send(id=id, result={"protocolVersion": 1, "agentCapabilities": abilities, "authMethods": []})
        elif method in ("session/new", "session/resume"):
            self._open(id, parameters)
        elif method == "session/prompt":
            self._prompt(id)
        elif id is not None:
            self._send(id=id, error={"code": -32601, "message": "Method not found"})

    def _open(self, id: object, parameters: dict[str, object]) -> None:
        if self.behaviour == "login":
            self._send(id=id, error={"code": -32000, "message": "Authentication required"})
            return
        servers = parameters.get("mcpServers")
        self.servers = servers if isinstance(servers, list) else []
        earlier = parameters.get("sessionId")
        if self.behaviour == "server":
            self.speak_to_servers()
        if self.open(earlier if isinstance(earlier, str) else None):
            self._send(id=id, result={"sessionId": self.session})
        else:
            self._send(id=id, error={"code": -32602, "message": "no such session"})

    def _prompt(self, id: object) -> None:
        if self.behaviour == "garbage":
            sys.stdout.write("a warning for people\n[1, 2]\n\n")
        if self.behaviour in ("ask", "tool"):
            self._ask()
        if self.behaviour == "spend":
            self._spend()
        text = self.behave()
        if text is not None:
            self._update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        if self.behaviour != "unknown":
            cost = _USD * (self.prompts if self.behaviour == "sums" else 1)
            self._update(sessionUpdate="usage_update", used=15, size=1000, cost={"amount": cost, "currency": "USD"})
        known = {} if self.behaviour == "unknown" else {"usage": usage}
        self._send(id=id, result={"stopReason": "end_turn", **known})

    def _ask(self) -> None:
        kind, title = ("execute", "rm -rf data") if self.behaviour == "ask" else ("other", "lab_look")
        self._update(sessionUpdate="tool_call", toolCallId="c1", title=title, kind=kind, status="pending")
        options = [{"optionId": "always", "name": "Always", "kind": "allow_always"},
                   {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                   {"optionId": "no", "name": "No", "kind": "reject_once"}]  # fmt: skip
        call = {"toolCallId": "c1", "title": title, "kind": kind}
        self._send(id=77, method="session/request_permission",
                   params={"sessionId": self.session, "toolCall": call, "options": options})  # fmt: skip
        answer = json.loads(sys.stdin.readline())["result"]["outcome"]
        given = answer.get("optionId") == "yes"
        Path("permission").write_text(str(answer.get("optionId")))
        self._update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed" if given else "failed")

    def _spend(self) -> None:
        """Calls a tool again and again, a dollar each time."""
        for number in range(1, 2000):
            self._update(sessionUpdate="tool_call", toolCallId=f"c{number}", title="look", kind="read")
            self._update(sessionUpdate="tool_call_update", toolCallId=f"c{number}", status="completed")
            self._update(sessionUpdate="usage_update", used=1, size=9, cost={"amount": number, "currency": "USD"})
            if select.select([sys.stdin], [], [], 0.02)[0]:
                sys.exit()  # it is asked to stop


class _Lines(_Harness):
    """One turn, in lines as Claude Code prints them; the prompt comes on standard input."""

    def serve(self) -> None:
        """Prints the turn."""
        sys.stdin.read()
        options = dict(zip(self.more[::2], self.more[1::2], strict=False))
        if self.behaviour == "login":
            self._end("Invalid API key - please run /login", is_error=True)
            sys.exit(1)
        servers = json.loads(options.get("--mcp-config", "{}")).get("mcpServers", {})
        self.servers = [{"name": name, **one} for name, one in servers.items()]
        if not self.open(options.get("--resume")):
            self._end("no such session", is_error=True)
            sys.exit(1)
        self._print(type="system", subtype="init", session_id=self.session, model="none", mcp_servers=[])
        if self.behaviour == "server":
            self.speak_to_servers()
        if self.behaviour == "garbage":
            sys.stdout.write("a warning for people\n[1, 2]\n\n")
        allowed = options.get("--allowedTools", "").split(",")
        denied = []
        if self.behaviour in ("ask", "tool"):
            name = "Bash" if self.behaviour == "ask" else "mcp__lab__look"
            is_allowed = name in allowed or ("mcp__lab" in allowed and name.startswith("mcp__lab"))
            Path("permission").write_text("yes" if is_allowed else "no")
            denied = [] if is_allowed else [{"tool_name": name}]
        if self.behaviour == "spend":
            self._spend()
        text = self.behave()
        if text is not None:
            self._said(text, "m1")
        self._end(text or "", denied=denied)

    def _print(self, **event: object) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def _said(self, text: str, id: str) -> None:
        usage = {} if self.behaviour == "unknown" else {"usage": {"input_tokens": 10, "output_tokens": 5}}
        content = [{"type": "text", "text": text}]
        self._print(type="assistant", message={"id": id, "role": "assistant", "content": content, **usage})

    def _spend(self) -> None:
        for number in range(1, 2000):
            self._said("and again", f"m{number}")
            time.sleep(0.02)

    def _end(self, text: str, *, is_error: bool = False, denied: list[dict[str, str]] | None = None) -> None:
        used: dict[str, object] = {"usage": {"input_tokens": 10, "output_tokens": 5}, "num_turns": 1}
        used["total_cost_usd"] = _USD * (self.prompts if self.behaviour == "sums" else 1)
        self._print(
            type="result", subtype="success", is_error=is_error, result=text, session_id=self.session,
            permission_denials=denied or [], **({} if self.behaviour == "unknown" else used),
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
