"""The slot `question`: what another plugin asks the thinker, such as an edit of code for a campaign.

The contract
------------
*One kind.* `kind` names its questions in requests, records and `perpetual thoughts`; `schema` is that of its answers.

*From the record.* `new` is called while no other question waits, with the lab in the thinker's name. It returns the
question to ask now with its subject, or None. It may write what the question needs, and finds that again after
kill -9: one subject has one question.

*Its word of more.* `may_come` answers at once, from any process: the daemon does not end for lack of work where another
question may come once what is under way is over. Where it is always true the daemon never ends.

*Checked before used.* `check` writes no record and raises BadReply with what is wrong, in words for the thinker, which
is asked once more. `use` may be called again after kill -9 with the same answer, and does the same once.

*Its word is data.* `use` runs and approves nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual_thinkers.base import MOST_QUESTION_BYTES, Request

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_thinkers.records import Thought

__all__ = ["MOST_QUESTION_BYTES", "Question"]


class Question(ABC):
    """A kind of question to the thinker; see the contract at the top of this module."""

    kind: str

    @abstractmethod
    def schema(self) -> Mapping[str, object]:
        """Returns the JSON schema of an answer."""

    @abstractmethod
    def new(self, lab: Lab, *, thinker: str) -> tuple[Request, str] | None:
        """Returns the question to ask now and its subject; None where there is none."""

    def may_come(self, lab: Lab) -> bool:
        """Returns whether another question may come once what is under way is over; writes nothing."""
        return False

    @abstractmethod
    def closed(self, lab: Lab, thought: Thought) -> str | None:
        """Returns why a question that was not answered yet has no point any longer; None where it has."""

    @abstractmethod
    def check(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> None:
        """Raises BadReply for an answer that cannot be used."""

    @abstractmethod
    def use(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> Mapping[str, object] | None:
        """Does what a checked answer says, and returns what came of it; None where it is not needed any longer."""
