"""Machine code on disk, so that a second process computes its first gradient without compiling.

One file an entry, named by the hash of its key: the source text, the function, its types, the CPU, and the versions of
everything that wrote it. A file starts with a checksum of all that follows, then the key, then the code. It is read only if
this user owns it and nobody else may write it; whatever is wrong with it (damage, another key, an old format), it is
ignored and written anew. Files appear by an atomic rename, so concurrent writers are safe.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from ..version import __version__

FORMAT = 1
MAGIC = b"adcompile kernel\n"
SUFFIXES = (".kernel", ".recipe")


@dataclass(frozen=True)
class Key:
    """What an entry depends on, as text."""

    text: str
    suffix: str = SUFFIXES[0]

    @staticmethod
    def of_recipe(*parts: str) -> Key:
        """The key of what the passes made of a function, given all that they depend on."""
        versions = (FORMAT, __version__, compiler_digest(), numba.__version__, np.__version__, sys.version)
        return Key("\n".join((*parts, repr(versions))), SUFFIXES[1])

    @staticmethod
    def of(source: str, function: str, signature: tuple[Any, ...]) -> Key:
        """The key of one function of a generated module, compiled for these numba types."""
        versions = (FORMAT, __version__, numba.__version__, llvmlite.__version__, np.__version__, sys.version)
        cpu = cpu_target.target_context.codegen().magic_tuple()
        return Key("\n".join((source, function, ", ".join(map(str, signature)), repr(cpu), repr(versions))))

    @property
    def filename(self) -> str:
        """The entry's file name."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:40] + self.suffix


class KernelCache(_Cache):
    """What a numba dispatcher asks before it compiles, and tells after it has compiled."""

    def __init__(self, key: Key) -> None:
        self.key = key

    @property
    def cache_path(self) -> str | None:
        """The folder, None where there is none that can be trusted."""
        found = folder()
        return str(found) if found else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code from disk, or None."""
        payload = read_entry(self.key)
        if payload is None:
            return None
        rtsys.initialize(target_context)        # not refresh(): half a second of imports that only compiling needs
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(payload))
        except Exception:               # written by something else than we think: compile anew
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code on disk."""
        if not data.library.has_dynamic_globals and folder() is not None:
            write_entry(self.key, dumps(data._reduce()))

    def enable(self) -> None:
        """Part of numba's protocol: always enabled."""

    def disable(self) -> None:
        """Part of numba's protocol: always enabled."""

    def flush(self) -> None:
        """Forget the entry."""
        found = folder()
        if found is not None:
            (found / self.key.filename).unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------- folder
def base_folder() -> Path:
    """Where this user's caches live: ADCOMPILE_CACHE_DIR, else the system's usual place."""
    override = os.environ.get("ADCOMPILE_CACHE_DIR")
    if override:
        return Path(override)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "adcompile"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "adcompile"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adcompile"


def folder() -> Path | None:
    """The private folder of the entries, made if need be; None where it cannot be made or trusted."""
    path = base_folder() / "kernels"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path if distrust(path) is None else None
    except (OSError, RuntimeError):             # read-only file system; no home folder
        return None


def distrust(path: Path) -> str | None:
    """Why a folder or file must not be trusted; None if it is ours alone."""
    return distrust_status(path.lstat(), path)


def distrust_status(status: os.stat_result, path: Path) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return f"{path} is a symbolic link"
    if hasattr(os, "getuid"):
        if status.st_uid != os.getuid():
            return f"{path} belongs to another user"
        if status.st_mode & 0o022:
            return f"{path} can be written by others"
    return None


# ---------------------------------------------------------------------------------------------------- entries
def read_entry(key: Key) -> bytes | None:
    """The bytes stored under a key; None where there are none, or none to be trusted."""
    found = folder()
    if found is None:
        return None
    path = found / key.filename
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            if distrust_status(os.fstat(file.fileno()), path) is not None:
                return None
            data = file.read()
    except OSError:
        return None
    return unpack(data, key)


def pack(key: Key, payload: bytes) -> bytes:
    """The contents of an entry's file."""
    text = key.text.encode()
    body = len(text).to_bytes(8, "little") + text + payload
    return MAGIC + hashlib.sha256(body).digest() + body


def unpack(data: bytes, key: Key) -> bytes | None:
    """The payload of an entry's file; None unless it is whole and of this key."""
    start = len(MAGIC) + 32
    body = data[start:]
    if data[:len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != data[len(MAGIC):start]:
        return None
    length = int.from_bytes(body[:8], "little")
    if body[8:8 + length] != key.text.encode():
        return None
    return body[8 + length:]


def write_entry(key: Key, payload: bytes) -> None:
    """Store bytes under a key. A full disk or a lost folder is no error: the next process compiles."""
    found = folder()
    if found is None:
        return
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=found, prefix="writing-")
        with open(handle, "wb") as file:
            file.write(pack(key, payload))
        os.replace(temporary, found / key.filename)
    except OSError:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------- recipes
@functools.cache
def compiler_digest() -> str:
    """Changes whenever a file of this package does, so that work on the compiler itself is never answered from disk."""
    package = Path(__file__).parent.parent
    files = sorted(path for path in package.rglob("*.py"))
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr(states).encode()).hexdigest()


def recall(key: Key) -> Any:
    """The object stored under a key; None where there is none."""
    payload = read_entry(key)
    try:
        return None if payload is None else pickle.loads(payload)
    except Exception:               # written by something else than we think
        return None


def remember(key: Key, value: Any) -> None:
    """Store an object under a key."""
    write_entry(key, pickle.dumps(value))


# ---------------------------------------------------------------------------------------------------- command line
@dataclass(frozen=True)
class Info:
    """State of the cache."""

    folder: Path
    entries: int
    bytes: int
    problem: str | None

    def __str__(self) -> str:
        text = f"{self.folder}: {self.entries} kernels, {self.bytes / 1e6:.1f} MB"
        return f"{text}\nnot used: {self.problem}" if self.problem else text


def info() -> Info:
    """How much is stored, where, and whether it is used."""
    path = base_folder() / "kernels"
    if folder() is None:
        problem = distrust(path) if path.exists() else None
        return Info(path, 0, 0, problem or f"{path} cannot be made")
    entries = [entry for entry in path.iterdir() if entry.suffix in SUFFIXES]
    kernels = sum(entry.suffix == SUFFIXES[0] for entry in entries)
    return Info(path, kernels, sum(entry.stat().st_size for entry in entries), None)


def clear() -> int:
    """Remove all entries; how many there were."""
    found = folder()
    count = 0
    for entry in found.iterdir() if found else ():
        if entry.suffix in SUFFIXES or entry.name.startswith("writing-"):
            entry.unlink(missing_ok=True)
            count += entry.suffix == SUFFIXES[0]
    return count
