"""The bare git repository that keeps the notes, on dulwich's repository and object layers.

Inside: `NoteRepository` (commit, read, list, history, intents), built on `bare` (the folder), `objects`, `branch` and
`commits` (their text). Only the git memory imports this module, once a repository is needed, so dulwich may stand at
its top and at theirs; it knows neither notes' status nor gates nor the store.

Promises, and how they are kept:

- **No user's files are touched.** The repository is bare and a commit needs no index: one blob, the trees
  along the path, the commit, then the branch. No hook runs; no configuration from elsewhere is read.
- **Objects are durable before the branch names them**: each object is written beside its place, synced and
  renamed, then its folder is synced; only then does the branch move, and its folder is synced as well.
- **Committers take turns** under a flock. A person's own `git push` does not know that lock, so the branch
  moves under git's own (`refs/heads/main.lock`), and only from the value that the commit was built on.
- **An intent is committed once.** Its number is in the trailer `Perpetual-Intent`; a second commit of the
  same intent answers the first one's id. That survives a kill at any point. A commit is the intent's only with its
  message, author and time: what was pushed with a trailer of its own is none, and holds up nothing.

A `NoteRepository` serves one thread at a time; any number of processes may have one open on the same folder.
The branch moves by a hard link and a rename, so the folder's file system must have hard links.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from dulwich.objects import Blob, Commit, ObjectID, Tree

from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.lock import FileLock
from perpetual_git import heads
from perpetual_git.bare import create, open_bare
from perpetual_git.branch import Branch
from perpetual_git.changes import TreeDiff
from perpetual_git.commits import Entry, draft, entry, identity, is_deed, message_of, own_intent
from perpetual_git.errors import IntentConflict, RepositoryError, UnknownCommit
from perpetual_git.history_index import HistoryIndex
from perpetual_git.objects import Objects, framed, is_id, parts_of, replaced, sha1, slot
from perpetual_git.paths import check_path
from perpetual_git.sizes import TooLarge

__all__ = ["NoteRepository", "Push", "PushedFile"]

NOTE_MODE = 0o100644
FOLDER_MODE = 0o040000
LOCK_WAIT_S = 10.0  # a git push holds the branch for milliseconds
INTENT_WINDOW = 200
KNOWN_INTENTS = 60  # what the slot asks for, also where people have pushed more than the window
LONGEST_WALK = 2_000
LISTING_LIMIT = 200_000


@dataclass(frozen=True)
class PushedFile:
    """A file that differs at a head; `blob` is None for one that is gone.

    Read whole by `pushed_file`: the commit that changed it, its author, and the content, None where it is too large.
    """

    path: str
    blob: str | None
    commit: str = ""
    author: str = ""
    content: bytes | None = None

    @property
    def text(self) -> str:
        """Returns the content, with marks for what is not UTF-8."""
        return (self.content or b"").decode("utf-8", "replace")


@dataclass(frozen=True)
class Push:
    """What differs between a commit that was seen and main's head; `files` is None where it is too much to list."""

    head: str
    files: list[PushedFile] | None


@dataclass
class _Edit:
    """One note's change in the trees: its blobs before and after, and whether nothing else had to change."""

    note: str
    content: bytes | None
    before: str | None = None
    after: str | None = None
    is_alone: bool = True


class NoteRepository:
    """A bare git repository of notes, opened.

    The constructor opens what is there; `open` also creates. `lock_wait_s` bounds the wait for a git that
    holds the branch. Close it, or use it as a context manager: packs stay open until then.

    Raises:
        RepositoryError: the folder is no bare git repository of SHA-1 objects and plain ref files.
    """

    def __init__(self, path: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self.path = path
        self._repo = open_bare(path)
        self._objects = Objects(path, self._repo)
        self._branch = Branch(path, self._repo, lock_wait_s)
        self._flock = FileLock(path / "perpetual.lock")
        self._index = HistoryIndex(path, self._objects, self._step)
        self._seen_head: ObjectID | None = None
        self._seen_intents: dict[int, list[ObjectID]] = {}  # of a trailer, nearest to the head first as they were read
        if self._branch.was_left() and self._flock.acquire(blocking=False):
            try:
                self._branch.clear_own_lock()
            finally:
                self._flock.release()

    @classmethod
    def open(cls, path: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> Self:
        """Opens the repository at `path`; where nothing or an empty folder is, creates it first (mode 0700).

        Raises:
            RepositoryError: `path` is a file, or a folder that is no such repository.
        """
        if not os.path.lexists(path) or (path.is_dir() and not path.is_symlink() and not any(path.iterdir())):
            create(path)
        return cls(path, lock_wait_s=lock_wait_s)

    def close(self) -> None:
        """Closes the packs and the index. May be called twice."""
        self._index.close()
        self._repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- writing ---

    def commit(
        self, path: str, content: bytes | None, *, message: str, author: str, when: datetime, intent: int
    ) -> str:
        """Commits one note to main and returns the commit's id, once it is durable.

        `content` None deletes the note. The commit is made even where nothing changes, so that each intent
        has one; an intent among the newest 200 commits, or the newest 60 made here if people have pushed up
        to 2,000 since, is not committed again, its id is answered. The id follows from the arguments and the
        branch alone: the same calls rebuild the same history.

        Args:
            path: the note; normalised and checked by `check_path`.
            message: any text; an empty one becomes the path. The trailer `Perpetual-Intent` is added.
            author: the actor's name, cleaned of what git cannot hold.
            when: aware, 1970 or later; whole seconds count.
            intent: the store's sequence number, 1 or more.

        Raises:
            PathRefused: by `check_path`.
            RefBusy: the branch could not be had within `lock_wait_s`.
            IntentConflict: the intent was committed before with another content or path.
            RepositoryError: an object that is needed is missing or damaged.
            ValueError: `when` is naive or before 1970, or `intent` is not positive.
        """
        note = check_path(path)
        if when.tzinfo is None or when.timestamp() < 0:
            raise ValueError(f"when must be aware and not before 1970, not {when!r}")
        if intent < 1:
            raise ValueError(f"intent must be 1 or more, not {intent}")
        with self._flock:
            self._branch.clear_own_lock()
            started_s = time.monotonic()
            while True:
                head = self._branch.head()
                made = draft(message_of(message, note, intent), identity(author), int(when.timestamp()))
                done = self._done(self._recent_intents(head).get(intent, ()), made, note, content, intent)
                if done is not None:
                    return done
                edit = _Edit(note, content)
                commit_id = self._write_commit(made, head, edit)
                if self._branch.move(head, commit_id, started_s):
                    self._seen_head = commit_id
                    self._seen_intents.setdefault(intent, []).append(commit_id)
                    heads.follow(self.path, None if head is None else head.decode(), commit_id.decode())
                    if edit.is_alone:
                        self._index.add(head, commit_id, parts_of(note), (edit.before, edit.after))
                    return commit_id.decode()
                self._branch.check_wait(started_s)

    def _done(
        self, found: Sequence[ObjectID], made: Commit, note: str, content: bytes | None, intent: int
    ) -> str | None:
        """Returns the commit that carried out an intent, of those with its number; one may be forged by a push.

        Raises:
            IntentConflict: it was carried out with another content or path.
        """
        ours = [it for it in found if is_deed(self._objects.commit(it), made)]
        wanted = None if content is None else self.blob_id(content)
        for commit_id in ours:
            if self._objects.blob_at(self._objects.commit(commit_id).tree, parts_of(note)) == wanted:
                return commit_id.decode()
        if ours:
            raise IntentConflict(self.path, intent, ours[0].decode())
        return None

    def _write_commit(self, made: Commit, head: ObjectID | None, edit: _Edit) -> ObjectID:
        folders: set[Path] = set()
        blob = None if edit.content is None else self._objects.put(Blob.from_string(edit.content), folders)
        edit.after = None if blob is None else blob.decode()
        old_root = None if head is None else self._objects.commit(head).tree
        root = self._edit(old_root, parts_of(edit.note), blob, edit, folders)
        made.tree = self._objects.put(Tree(), folders) if root is None else root
        made.parents = [] if head is None else [head]
        commit_id = self._objects.put(made, folders)
        for folder in sorted(folders):
            fsync_dir(folder)
        fsync_dir(self.path / "objects")
        return commit_id

    def _edit(
        self, tree_id: ObjectID | None, parts: list[bytes], blob: ObjectID | None, edit: _Edit, folders: set[Path]
    ) -> ObjectID | None:
        """Returns the tree with `blob` at `parts`, or without that entry; None where nothing is left in it.

        What was pushed into the way of a note, a file in its folder's place or a folder in its own, gives way: it is no
        note, and stays in the history. An intent is never refused, and one that was would hold up all later ones.
        """
        tree = Tree() if tree_id is None else self._objects.tree(tree_id)
        name = parts[0]
        mode, child = slot(tree, name)
        is_last = len(parts) == 1
        if mode and stat.S_ISDIR(mode) == is_last:  # in the way
            if blob is None:
                return tree_id
            edit.is_alone, mode, child = False, 0, None
        if is_last:
            edit.before = child.decode() if child is not None and stat.S_ISREG(mode) else None
            line = None if blob is None else (NOTE_MODE, blob)
        else:
            folder = self._edit(child, parts[1:], blob, edit, folders)
            line = None if folder is None else (FOLDER_MODE, folder)
        if line is not None:
            raw = replaced(tree.as_raw_string(), name, *line)
            if raw is not None:
                return self._objects.put_raw(Tree, raw, folders)
            tree[name] = line
        elif name in tree:
            del tree[name]
        return self._objects.put(tree, folders) if len(tree) else None

    # --- intents ---

    def find_intent(self, intent: int, *, newest: int = INTENT_WINDOW) -> str | None:
        """Returns the newest commit with the trailer of `intent`, looked for in the `newest` commits of main.

        Nearest to main's head first and through all parents: after a person's merge and push, commits made
        here may stand on the second parent only.
        """
        for visited, (commit_id, commit) in enumerate(self._ancestors(self._branch.head())):
            if visited >= newest:
                break
            if own_intent(commit) == intent:
                return commit_id.decode()
        return None

    def last_intent(self) -> int:
        """Returns the highest intent that main ends in, 0 if it holds none.

        Each line of history is followed down to its newest commit made here, so this costs as many reads as
        people have pushed commits since. Where intents were committed out of order it may be below the
        highest one; `commit` still repeats none.
        """
        walk = self._ancestors(self._branch.head(), through_own=False)
        return max((own_intent(commit) or 0 for _, commit in walk), default=0)

    def _recent_intents(self, head: ObjectID | None) -> dict[int, list[ObjectID]]:
        """Commits by the intents in their trailers: of the newest commits and of what was seen before."""
        own = 0
        for visited, (commit_id, commit) in enumerate(self._ancestors(head, until=self._seen_head)):
            if visited >= (INTENT_WINDOW if own >= KNOWN_INTENTS else LONGEST_WALK):
                break
            intent = own_intent(commit)
            if intent is not None:
                own += 1
                known = self._seen_intents.setdefault(intent, [])
                if commit_id not in known:
                    known.append(commit_id)
        self._seen_head = head
        return self._seen_intents

    def _ancestors(
        self, head: ObjectID | None, *, until: ObjectID | None = None, through_own: bool = True
    ) -> Iterator[tuple[ObjectID, Commit]]:
        """Commits from `head` down, breadth first, each once; neither `until` nor what only it leads to."""
        queue = deque([] if head is None else [head])
        known = {head, until}
        if head == until:
            return
        while queue:
            commit_id = queue.popleft()
            commit = self._objects.commit(commit_id)
            yield commit_id, commit
            if not through_own and own_intent(commit) is not None:
                continue
            for parent in commit.parents:
                if parent not in known:
                    known.add(parent)
                    queue.append(parent)

    # --- reading ---

    def read(self, path: str, commit: str | None = None) -> bytes | None:
        """Returns the bytes of a note at `commit`, by default at main's head; None where there is no such file.

        `path` is looked up as it stands. A symbolic link or submodule is no file: links are never followed.

        Raises:
            UnknownCommit: `commit` is not the id of a commit here.
            RepositoryError: an object is missing or damaged.
        """
        at = self._branch.head() if commit is None else self._known(commit)
        if at is None:
            return None
        blob = self._objects.blob_at(self._objects.commit(at).tree, parts_of(path))
        return None if blob is None else self._objects.raw(ObjectID(blob.encode()), Blob)

    def _known(self, commit: str) -> ObjectID:
        name = ObjectID(commit.lower().encode("ascii", "replace"))
        found = self._objects.find(name) if is_id(name) else None
        if found is None or found[0] is not Commit:
            raise UnknownCommit(self.path, commit)
        return name

    def listing(self, prefix: str = "") -> list[tuple[str, str]]:
        r"""Returns path and blob id of every regular file at main's head whose path starts with `prefix`, by path.

        Pushed files are listed as they are, notes or not; links and submodules are left out. A name that is
        not UTF-8 is shown with `\xNN` for its odd bytes, which no note's path can hold.

        Raises:
            RepositoryError: an object is missing or damaged, or the tree has more than 200,000 entries.
        """
        head = self._branch.head()
        found: list[tuple[str, str]] = []
        folders = [] if head is None else [("", self._objects.commit(head).tree)]
        visited = 0
        while folders:
            above, tree_id = folders.pop()
            for name, mode, child in self._objects.tree(tree_id).iteritems():
                visited += 1
                if visited > LISTING_LIMIT:  # trees may share subtrees: a few kB can unfold to billions
                    raise RepositoryError(self.path, f"its tree has more than {LISTING_LIMIT} entries")
                full = above + name.decode("utf-8", "backslashreplace")
                if stat.S_ISDIR(mode):
                    inside = f"{full}/"
                    if inside.startswith(prefix) or prefix.startswith(inside):
                        folders.append((inside, child))
                elif stat.S_ISREG(mode) and full.startswith(prefix):
                    found.append((full, child.decode()))
        return sorted(found)

    def is_empty(self) -> bool:
        """Returns whether there is no commit yet."""
        return self._branch.head() is None

    def pushed(self, seen: str | None) -> Push | None:
        """Returns the files at main's head that differ from the commit `seen`, or all where there is no such commit.

        None before the first commit. Regular files alone count, as everywhere.
        """
        head = self._branch.head()
        if head is None:
            return None
        try:
            old = None if seen is None else self._objects.commit(self._known(seen)).tree
        except UnknownCommit:
            old = None
        changed = TreeDiff(self._objects).changed(old, self._objects.commit(head).tree, most=LISTING_LIMIT)
        if changed is None:
            return Push(head.decode(), None)
        files = [PushedFile(path.decode("utf-8", "backslashreplace"), blob) for path, blob in sorted(changed.items())]
        return Push(head.decode(), files)

    def pushed_file(self, head: str, file: PushedFile, *, largest: int) -> PushedFile:
        """Returns the file with its content, if that has at most `largest` bytes, and its last commit and author."""
        newest = next(iter(self.history(file.path, 1)), None)
        made = newest or entry(name := ObjectID(head.encode()), self._objects.commit(name), file.blob)
        content: bytes | None = None
        if file.blob is not None:
            try:
                content = self._objects.raw(ObjectID(file.blob.encode()), Blob)
            except RepositoryError as problem:
                if not isinstance(problem.__cause__, TooLarge):
                    raise
        kept = content if content is not None and len(content) <= largest else None
        return PushedFile(file.path, file.blob, made.commit, made.author, kept)

    def blob_at(self, commit: str, path: str) -> str | None:
        """Returns the blob of the file at a commit; None where there is no such file or commit."""
        try:
            tree = self._objects.commit(self._known(commit)).tree
        except UnknownCommit:
            return None
        return self._objects.blob_at(tree, parts_of(path))

    def history(self, path: str, limit: int) -> list[Entry]:
        """Returns the newest `limit` changes of the file at `path`, newest first, deletions included.

        Along the first parent, comparing the file in each commit with the one before. At a merge it goes on along the
        first parent that has the file as the merge has it, as `git log` does: a change is reported by the commit that
        made it, not by the merge that brought it in. Answered from the index, whose first use reads every commit.
        """
        parts = parts_of(path)
        head = self._branch.head()
        if head is None or limit < 1:
            return []
        self._objects.commit(head)
        found = self._index.changes(head, parts, limit)
        if found is not None:
            try:
                return [entry(commit_id, self._objects.commit(commit_id), blob) for commit_id, blob in found]
            except RepositoryError:
                pass  # the index may be what is wrong
        return self.walked_history(path, limit)

    def walked_history(self, path: str, limit: int) -> list[Entry]:
        """Returns what `history` does, reading one commit of main after the other, whichever note it is about."""
        parts = parts_of(path)
        memo: dict[tuple[ObjectID, int], str | None] = {}
        entries: list[Entry] = []
        head = self._branch.head()
        at = None if head is None else (head, self._objects.commit(head))
        while at is not None and len(entries) < limit:
            (blob, is_change, goes_on), here = self._stepped(at[1], parts, memo), at
            if is_change:
                entries.append(entry(*here, blob))
            at = goes_on
        return entries

    def _step(self, commit_id: ObjectID, parts: list[bytes]) -> tuple[str | None, bool, ObjectID | None]:
        """Returns what the walk does at one commit, for the index."""
        blob, is_change, goes_on = self._stepped(self._objects.commit(commit_id), parts, {})
        return blob, is_change, None if goes_on is None else goes_on[0]

    def _stepped(
        self, commit: Commit, parts: list[bytes], memo: dict[tuple[ObjectID, int], str | None]
    ) -> tuple[str | None, bool, tuple[ObjectID, Commit] | None]:
        """Returns the file's blob at a commit, whether the commit changed it, and the parent its history goes on at."""
        blob = self._objects.blob_at(commit.tree, parts, memo)
        parents = [(parent, self._objects.commit(parent)) for parent in commit.parents]
        same = [p for p in parents if self._objects.blob_at(p[1].tree, parts, memo) == blob]
        is_change = not same and (bool(parents) or blob is not None)
        return blob, is_change, next(iter(same or parents), None)

    @staticmethod
    def blob_id(content: bytes) -> str:
        """Returns the id that git gives a file of this content. Nothing is written."""
        return sha1(framed(Blob, content))
