"""The bare git repository that keeps the notes, on dulwich's repository and object layers.

Inside: `NoteRepository` (commit, read, list, history, intents) and its errors. Only the git memory imports this module,
once a repository is needed, so dulwich may stand at its top; it knows neither notes' status nor gates nor the store.

Promises, and how they are kept:

- **Nobody's files are touched.** The repository is bare and a commit needs no index: one blob, the trees
  along the path, the commit, then the branch. No hook runs; no configuration from elsewhere is read.
- **Objects are durable before the branch names them**: each object is written beside its place, synced and
  renamed, then its folder is synced; only then does the branch move, and its folder is synced as well.
- **Committers take turns** under a flock. A person's own `git push` does not know that lock, so the branch
  moves under git's own (`refs/heads/main.lock`), and only from the value that the commit was built on.
- **An intent is committed once.** Its number stands in the trailer `Perpetual-Intent`; a second commit of the
  same intent answers the first one's id. That survives a kill at any point.

A `NoteRepository` serves one thread at a time; any number of processes may have one open on the same folder.
The branch moves by a hard link and a rename, so the folder's file system must have hard links.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import unicodedata
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeVar

from dulwich.errors import ChecksumMismatch, FileFormatException, NotGitRepository
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree, object_class
from dulwich.refs import DiskRefsContainer, Ref
from dulwich.repo import InvalidWorktreeConfiguration, Repo, UnsupportedExtension, UnsupportedVersion

from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.lock import FileLock
from perpetual_git.paths import UNPRINTABLE, PathRefused, check_path

__all__ = [
    "Entry",
    "IntentConflict",
    "NoteRepository",
    "RefBusy",
    "RepositoryError",
    "UnknownCommit",
    "intent_of",
]

_Kind = TypeVar("_Kind", Commit, Tree)

MAIN = Ref(b"refs/heads/main")
TRAILER = "Perpetual-Intent"
COMMITTER = b"Perpetual <memory@perpetual>"
NOTE_MODE = 0o100644
FOLDER_MODE = 0o040000
LATEST_UNIX_S = 253_402_300_799  # 9999-12-31T23:59:59Z, the last second a datetime can hold
LOCK_WAIT_S = 10.0  # a git push holds the branch for milliseconds
LOCK_POLL_S = 0.01
INTENT_WINDOW = 200
LISTING_LIMIT = 200_000
LOOSE_COMPRESSION = 1  # git's own choice; the ids that fill a tree do not compress


# --- errors -------------------------------------------------------------------------------------------------


class RepositoryError(Exception):
    """The repository cannot be used as it is. `path` is its folder, `why` the reason."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class RefBusy(RepositoryError):
    """Somebody else kept the branch for longer than `waited_s` seconds; `lock_file` is what they hold it by.

    Trying again is safe. A lock file that outlives every running git was left by one that was killed.
    """

    def __init__(self, path: Path, lock_file: Path, waited_s: float) -> None:
        super().__init__(
            path,
            f"main could not be moved within {waited_s:.1f} s: another git is changing it, or one was killed "
            f"while it did; if none is running, remove {lock_file}",
        )
        self.lock_file = lock_file
        self.waited_s = waited_s


class UnknownCommit(RepositoryError):
    """`commit` names no commit of this repository."""

    def __init__(self, path: Path, commit: str) -> None:
        super().__init__(path, f"there is no commit {commit!r}")
        self.commit = commit


class IntentConflict(RepositoryError):
    """Intent `intent` was committed before, as `commit`, with another content or path.

    The numbers were given twice: the store is younger than the repository, or was restored from a backup.
    """

    def __init__(self, path: Path, intent: int, commit: str) -> None:
        super().__init__(path, f"intent {intent} was committed before as {commit}, with other content")
        self.intent = intent
        self.commit = commit


# --- text of commits ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One change of a note: the commit that made it, and what the note was afterwards.

    `blob` is None where the commit deleted the note. `author` is the author's name without the address;
    `when` the author's time in UTC; `message` the whole message, trailer included.
    """

    commit: str
    when: datetime
    author: str
    message: str
    blob: str | None


def intent_of(message: str) -> int | None:
    """The number in the trailer that ends `message`, or None.

    Only the last line counts: a note's own text may quote the trailer further up.
    """
    last = message.rstrip().rpartition("\n")[2]
    found = re.fullmatch(rf"{TRAILER}: ([1-9][0-9]{{0,18}})", last)
    return int(found.group(1)) if found else None


def _message(text: str, note: str, intent: int) -> bytes:
    lines = [line.rstrip() for line in text.replace("\0", "").splitlines()]
    body = "\n".join(lines).strip() or note
    return f"{body}\n\n{TRAILER}: {intent}\n".encode("utf-8", "replace")


def _ident(actor: str) -> bytes:
    """`name <actor@perpetual>`, without what git parses an identity by or drops at a name's ends."""
    printable = "".join(" " if unicodedata.category(c) in UNPRINTABLE else c for c in actor)
    name = " ".join(re.sub(r"[<>]", "", printable).split())[:100].strip(" .,:;\"'\\") or "unknown"
    address = re.sub(r"[^\w.+:-]+", "-", name).strip("-.") or "unknown"
    return f"{name} <{address}@perpetual>".encode()


def _author_name(ident: bytes) -> str:
    return ident.partition(b"<")[0].strip().decode("utf-8", "replace")


def _own_intent(commit: Commit) -> int | None:
    """The intent of a commit made here. A cherry-pick copies the trailer, but has its own committer."""
    return intent_of(commit.message.decode("utf-8", "replace")) if commit.committer == COMMITTER else None


# --- the repository -----------------------------------------------------------------------------------------


class NoteRepository:
    """A bare git repository of notes, opened.

    The constructor opens what is there; `open` also creates. `lock_wait_s` bounds the wait for a git that
    holds the branch. Close it, or use it as a context manager: packs stay open until then.

    Raises:
        RepositoryError: the folder is no bare git repository of SHA-1 objects and plain ref files.
    """

    def __init__(self, path: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self.path = path
        self._lock_wait_s = lock_wait_s
        self._repo = _open_bare(path)
        self._flock = FileLock(path / "perpetual.lock")
        self._main_file = path / "refs" / "heads" / "main"
        self._main_lock = path / "refs" / "heads" / "main.lock"
        # Whoever moves the branch links this file to main.lock. A main.lock that is the same file therefore
        # belongs to a committer from here, and to a dead one where the flock is free.
        self._main_next = path / "perpetual-main.next"
        self._seen_head: ObjectID | None = None
        self._seen_intents: dict[int, ObjectID] = {}
        if self._main_next.exists() and self._flock.acquire(blocking=False):
            try:
                self._clear_own_lock()
            finally:
                self._flock.release()

    @classmethod
    def open(cls, path: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> Self:
        """Open the repository at `path`; where nothing or an empty folder is, create it first (mode 0700).

        Raises:
            RepositoryError: `path` is a file, or a folder that is no such repository.
        """
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            _create(path)
        return cls(path, lock_wait_s=lock_wait_s)

    def close(self) -> None:
        """Close the packs. May be called twice."""
        self._repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- writing ---

    def commit(
        self, path: str, content: bytes | None, *, message: str, author: str, when: datetime, intent: int
    ) -> str:
        """Commit one note to main and answer the commit's id, once it is durable.

        `content` None deletes the note. The commit is made even where nothing changes, so that each intent
        has one; an intent among the newest 200 commits is not committed again, its id is answered. The id
        follows from the arguments and the branch alone: the same calls rebuild the same history.

        Args:
            path: the note; normalised and checked by `check_path`.
            message: any text; an empty one becomes the path. The trailer `Perpetual-Intent` is added.
            author: the actor's name, cleaned of what git cannot hold.
            when: aware, 1970 or later; whole seconds count.
            intent: the store's sequence number, 1 or more.

        Raises:
            PathRefused: by `check_path`; or the path is a folder here, or leads through what is none.
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
            self._clear_own_lock()
            started_s = time.monotonic()
            while True:
                head = self._head()
                done = self._recent_intents(head).get(intent)
                if done is not None:
                    return self._same_deed(done, note, content, intent)
                draft = _draft(_message(message, note, intent), _ident(author), int(when.timestamp()))
                commit_id = self._write_commit(draft, head, note, content)
                if self._move_main(head, commit_id, started_s):
                    self._seen_head = commit_id
                    self._seen_intents[intent] = commit_id
                    return commit_id.decode()
                self._check_wait(started_s)

    def _same_deed(self, done: ObjectID, note: str, content: bytes | None, intent: int) -> str:
        wanted = None if content is None else self.blob_id(content)
        if self._blob_at(self._commit(done).tree, _parts(note)) != wanted:
            raise IntentConflict(self.path, intent, done.decode())
        return done.decode()

    def _write_commit(self, draft: Commit, head: ObjectID | None, note: str, content: bytes | None) -> ObjectID:
        folders: set[Path] = set()
        blob = None if content is None else self._put(Blob.from_string(content), folders)
        old_root = None if head is None else self._commit(head).tree
        root = self._edit(old_root, _parts(note), blob, note, folders)
        draft.tree = self._put(Tree(), folders) if root is None else root
        draft.parents = [] if head is None else [head]
        commit_id = self._put(draft, folders)
        for folder in sorted(folders):
            fsync_dir(folder)
        fsync_dir(self.path / "objects")
        return commit_id

    def _edit(
        self,
        tree_id: ObjectID | None,
        parts: list[bytes],
        blob: ObjectID | None,
        note: str,
        folders: set[Path],
    ) -> ObjectID | None:
        """The tree with `blob` at `parts`, or without what is there; None where nothing is left in it."""
        tree = Tree() if tree_id is None else self._tree(tree_id)
        name = parts[0]
        mode, child = _slot(tree, name)
        if len(parts) == 1:
            if stat.S_ISDIR(mode):
                if blob is None:
                    return tree_id
                raise PathRefused(note, "it is a folder in this memory")
            entry = None if blob is None else (NOTE_MODE, blob)
        else:
            if mode and not stat.S_ISDIR(mode):
                if blob is None:
                    return tree_id
                raise PathRefused(note, f"{name.decode()} in it is no folder in this memory")
            folder = self._edit(child, parts[1:], blob, note, folders)
            entry = None if folder is None else (FOLDER_MODE, folder)
        if entry is not None:
            tree[name] = entry
        elif mode:
            del tree[name]
        return self._put(tree, folders) if len(tree) else None

    def _put(self, item: ShaFile, folders: set[Path]) -> ObjectID:
        """Write one loose object, synced, and note its folder in `folders`.

        Written even where it exists: an object left half-synced by a crash is then whole again. dulwich's own
        writer would skip it, and fail for ever on the lock file of a writer that was killed. The name of the
        temporary file is one that `git gc` clears away; the flock makes it ours alone.
        """
        framed = _frame(type(item), item.as_raw_string())
        name = _sha1(framed)
        folder = self.path / "objects" / name[:2]
        folder.mkdir(exist_ok=True)
        temporary = folder / "tmp_obj_perpetual"
        _write_synced(temporary, zlib.compress(framed, LOOSE_COMPRESSION), 0o444)
        os.replace(temporary, folder / name[2:])
        folders.add(folder)
        return ObjectID(name.encode())

    # --- the branch ---

    def _head(self) -> ObjectID | None:
        """The commit main names, None before the first.

        Read here and not by dulwich, which takes any error in reading the file for its absence: a branch that
        looks unborn would be begun anew.
        """
        try:
            value = self._main_file.read_bytes().strip()
        except FileNotFoundError:
            packed = self._repo.refs.get_packed_refs().get(MAIN)
            if packed is None:
                return None
            value = packed
        if not _is_id(value):
            raise RepositoryError(self.path, f"{self._main_file} names no commit: {value[:60]!r}")
        return ObjectID(value)

    def _move_main(self, expected: ObjectID | None, new: ObjectID, started_s: float) -> bool:
        """Let main name `new` if it still names `expected`; False if it does not.

        git's protocol: whoever creates main.lock may change main, by renaming the one over the other.
        """
        self._main_file.parent.mkdir(exist_ok=True)
        _write_synced(self._main_next, new + b"\n", 0o644)
        self._take_main_lock(started_s)
        try:
            moved = self._head() == expected
            if moved:
                os.replace(self._main_lock, self._main_file)
                fsync_dir(self._main_file.parent)
        finally:
            self._clear_own_lock()
        return moved

    def _take_main_lock(self, started_s: float) -> None:
        while True:
            try:
                os.link(self._main_next, self._main_lock)
                return
            except FileExistsError:
                self._check_wait(started_s)
            time.sleep(LOCK_POLL_S)

    def _check_wait(self, started_s: float) -> None:
        waited_s = time.monotonic() - started_s
        if waited_s >= self._lock_wait_s:
            raise RefBusy(self.path, self._main_lock, waited_s)

    def _clear_own_lock(self) -> None:
        """Give main.lock back if it is ours; the flock is held, so whoever made it is done or dead."""
        try:
            if os.path.samefile(self._main_next, self._main_lock):
                self._main_lock.unlink()
        except FileNotFoundError:
            pass  # one of the two is not there: nothing is held
        self._main_next.unlink(missing_ok=True)

    # --- intents ---

    def find_intent(self, intent: int, *, newest: int = INTENT_WINDOW) -> str | None:
        """The id of the commit that carried out `intent`, looked for in the `newest` commits of main.

        Nearest to main's head first and through all parents: after a person's merge and push, commits made
        here may stand on the second parent only.
        """
        for visited, (commit_id, commit) in enumerate(self._ancestors(self._head())):
            if visited >= newest:
                break
            if _own_intent(commit) == intent:
                return commit_id.decode()
        return None

    def last_intent(self) -> int:
        """The highest intent that main ends in, 0 if it holds none.

        Each line of history is followed down to its newest commit made here, so this costs as many reads as
        people have pushed commits since. Where intents were committed out of order it may be below the
        highest one; `commit` still repeats none.
        """
        walk = self._ancestors(self._head(), through_own=False)
        return max((_own_intent(commit) or 0 for _, commit in walk), default=0)

    def _recent_intents(self, head: ObjectID | None) -> dict[int, ObjectID]:
        """Intents of the newest `INTENT_WINDOW` commits and of what was seen before, read on from there."""
        for visited, (commit_id, commit) in enumerate(self._ancestors(head, until=self._seen_head)):
            if visited >= INTENT_WINDOW:
                break
            intent = _own_intent(commit)
            if intent is not None:
                self._seen_intents.setdefault(intent, commit_id)
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
            commit = self._commit(commit_id)
            yield commit_id, commit
            if not through_own and _own_intent(commit) is not None:
                continue
            for parent in commit.parents:
                if parent not in known:
                    known.add(parent)
                    queue.append(parent)

    # --- reading ---

    def read(self, path: str, commit: str | None = None) -> bytes | None:
        """The bytes of a note at `commit`, by default at main's head; None where there is no such file.

        `path` is looked up as it stands. A symbolic link or submodule is no file: links are never followed.

        Raises:
            UnknownCommit: `commit` is not the id of a commit here.
            RepositoryError: an object is missing or damaged.
        """
        at = self._head() if commit is None else self._known(commit)
        if at is None:
            return None
        blob = self._blob_at(self._commit(at).tree, _parts(path))
        return None if blob is None else self._raw(ObjectID(blob.encode()), Blob)

    def _known(self, commit: str) -> ObjectID:
        name = ObjectID(commit.lower().encode("ascii", "replace"))
        if not _is_id(name) or name not in self._repo.object_store or self._get(name)[0] is not Commit:
            raise UnknownCommit(self.path, commit)
        return name

    def listing(self, prefix: str = "") -> list[tuple[str, str]]:
        """Path and blob id of every regular file at main's head whose path starts with `prefix`, by path.

        Pushed files are listed as they are, notes or not; links and submodules are left out. A name that is
        not UTF-8 is shown with `\\xNN` for its odd bytes, which no note's path can hold.

        Raises:
            RepositoryError: an object is missing or damaged, or the tree has more than 200,000 entries.
        """
        head = self._head()
        found: list[tuple[str, str]] = []
        folders = [] if head is None else [("", self._commit(head).tree)]
        visited = 0
        while folders:
            above, tree_id = folders.pop()
            for name, mode, child in self._tree(tree_id).iteritems():
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

    def history(self, path: str, limit: int) -> list[Entry]:
        """The newest `limit` changes of the file at `path`, newest first, deletions included.

        A walk along the first parent that compares the file in each commit with the one before. At a merge
        it goes on along the first parent that has the file as the merge has it, as `git log` does: a change
        is told by the commit that made it, not by the merge that brought it in.

        Costs one read per commit of main, whoever they are about: keep the answer where it is asked often.
        """
        parts = _parts(path)
        memo: dict[tuple[ObjectID, int], str | None] = {}
        entries: list[Entry] = []
        head = self._head()
        at = None if head is None else (head, self._commit(head))
        while at is not None and len(entries) < limit:
            commit_id, commit = at
            blob = self._blob_at(commit.tree, parts, memo)
            parents = [(parent, self._commit(parent)) for parent in commit.parents]
            same = [p for p in parents if self._blob_at(p[1].tree, parts, memo) == blob]
            if not same and (parents or blob is not None):
                entries.append(_entry(commit_id, commit, blob))
            at = next(iter(same or parents), None)
        return entries

    @staticmethod
    def blob_id(content: bytes) -> str:
        """The id that git gives a file of this content. Nothing is written."""
        return _sha1(_frame(Blob, content))

    # --- objects ---

    def _blob_at(
        self,
        tree_id: ObjectID,
        parts: list[bytes],
        memo: dict[tuple[ObjectID, int], str | None] | None = None,
    ) -> str | None:
        """The blob of the regular file at `parts`. `memo` spares the trees that commits have in common."""
        key = (tree_id, len(parts))
        if memo is not None and key in memo:
            return memo[key]
        tree = self._tree(tree_id)
        mode, child = _slot(tree, parts[0])
        blob: str | None = None
        if child is not None and len(parts) > 1 and stat.S_ISDIR(mode):
            blob = self._blob_at(child, parts[1:], memo)
        elif child is not None and len(parts) == 1 and stat.S_ISREG(mode):
            blob = child.decode()
        if memo is not None:
            memo[key] = blob
        return blob

    def _commit(self, object_id: ObjectID) -> Commit:
        return self._parse(Commit, object_id)

    def _tree(self, object_id: ObjectID) -> Tree:
        return self._parse(Tree, object_id)

    def _parse(self, kind: type[_Kind], object_id: ObjectID) -> _Kind:
        raw = self._raw(object_id, kind)
        try:
            return kind.from_string(raw)
        except FileFormatException as error:
            raise RepositoryError(self.path, f"object {object_id.decode()} is malformed: {error}") from error

    def _raw(self, object_id: ObjectID, kind: type[ShaFile]) -> bytes:
        found, raw = self._get(object_id)
        if found is not kind:
            raise RepositoryError(self.path, f"object {object_id.decode()} is no {kind.type_name.decode()}")
        return raw

    def _get(self, object_id: ObjectID) -> tuple[type[ShaFile] | None, bytes]:
        """Kind and content of an object, held against its name: dulwich takes a cut file for a short one."""
        name = object_id.decode()
        try:
            type_number, raw = self._repo.object_store.get_raw(object_id)
        except KeyError as error:
            raise RepositoryError(self.path, f"object {name} is missing") from error
        except (FileFormatException, ChecksumMismatch, zlib.error) as error:
            raise RepositoryError(self.path, f"object {name} is damaged: {error}") from error
        kind = object_class(type_number)
        if kind is None or _sha1(_frame(kind, raw)) != name:
            raise RepositoryError(self.path, f"object {name} is damaged: its content has another hash")
        return kind, raw


def _frame(kind: type[ShaFile], raw: bytes) -> bytes:
    """What git hashes, and compresses into a loose object's file."""
    return b"%s %d\0%s" % (kind.type_name, len(raw), raw)


def _sha1(framed: bytes) -> str:
    return hashlib.sha1(framed, usedforsecurity=False).hexdigest()


def _is_id(value: bytes) -> bool:
    return re.fullmatch(rb"[0-9a-f]{40}", value) is not None


def _parts(path: str) -> list[bytes]:
    return [segment.encode("utf-8", "backslashreplace") for segment in path.split("/")]


def _slot(tree: Tree, name: bytes) -> tuple[int, ObjectID | None]:
    """Mode and id of what a tree has by that name, (0, None) for nothing."""
    if name not in tree:
        return 0, None
    return tree[name]


def _draft(message: bytes, author: bytes, when_unix_s: int) -> Commit:
    draft = Commit()
    draft.author = author
    draft.committer = COMMITTER
    draft.author_time = draft.commit_time = when_unix_s
    draft.author_timezone = draft.commit_timezone = 0
    draft.message = message
    return draft


def _entry(commit_id: ObjectID, commit: Commit, blob: str | None) -> Entry:
    when_unix_s = min(max(int(commit.author_time), 0), LATEST_UNIX_S)
    return Entry(
        commit=commit_id.decode(),
        when=datetime.fromtimestamp(when_unix_s, UTC),
        author=_author_name(commit.author),
        message=commit.message.decode("utf-8", "replace"),
        blob=blob,
    )


# --- opening and creating -----------------------------------------------------------------------------------


def _open_bare(path: Path) -> Repo:
    if not ((path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()):
        raise RepositoryError(path, "this is no bare git repository")
    try:
        repo = Repo(str(path), bare=True)
    except (
        NotGitRepository,
        UnsupportedExtension,
        UnsupportedVersion,
        InvalidWorktreeConfiguration,
    ) as error:
        raise RepositoryError(path, f"this git repository cannot be read: {error}") from error
    except ValueError as error:
        raise RepositoryError(path, f"its git configuration cannot be read: {error}") from error
    why = _unsuitable(repo)
    if why is not None:
        repo.close()
        raise RepositoryError(path, why)
    return repo


def _unsuitable(repo: Repo) -> str | None:
    if not repo.get_config().get_boolean((b"core",), b"bare", False):
        return "this git repository is not bare; a commit would leave its work tree behind"
    if repo.object_format.hex_length != 40:
        return "this git repository does not use SHA-1"
    if not isinstance(repo.refs, DiskRefsContainer):
        return "this git repository does not keep its refs in files"
    return None


def _create(path: Path) -> None:
    """Make the repository beside its place and rename it there: nobody sees half of one.

    Of two who do this at once the first wins, and the second finds a folder that is not empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))  # mkdtemp gives mode 0700
    try:
        with Repo.init_bare(str(draft), default_branch=b"main") as repo:
            _configure(repo)
        for folder in (draft / "refs", draft):
            fsync_dir(folder)
        try:
            os.rename(draft, path)
        except OSError:
            if not (path / "HEAD").is_file():
                raise
        fsync_dir(path.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _configure(repo: Repo) -> None:
    config = repo.get_config()
    receive = (b"receive",)
    # What was acknowledged stays: a push may add to main, not rewrite or remove it.
    config.set(receive, b"denyNonFastForwards", True)
    config.set(receive, b"denyDeletes", True)
    # A push is read by programs: malformed objects and names like .git stay outside, as does a flood.
    config.set(receive, b"fsckObjects", True)
    config.set(receive, b"maxInputSize", b"64m")
    # git syncs neither loose objects nor refs by itself, and commits made here build on what was pushed.
    config.set((b"core",), b"fsync", b"committed,reference")
    # A branch that only ever grows needs no log of its positions.
    config.set((b"core",), b"logAllRefUpdates", False)
    config.write_to_path()


def _write_synced(path: Path, content: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)  # left by a writer that was killed; mode 0444 could not be opened again
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
