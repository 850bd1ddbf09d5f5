"""The disk cache: a second process does not compile; what is not whole, ours and current is ignored and rebuilt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import assert_close

from adcompile import compile_grad, compile_value, pipeline
from adcompile.runtime import cache, threads

PROGRAM = """
import json, sys
import numba
from numba.core import event
compiled = []

class Recorder(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

event.register("numba:compile", Recorder())
import numpy as np
from adcompile import compile_grad

def loss(x, a):
    return np.sum(np.exp(a * x) * x)

f = compile_grad(loss)
x = np.array([0.0, 1.0])
value, gradient = f(x, 1.0)
out = np.zeros(2)
if "out" in sys.argv:
    f(x, 1.0, out=out)
print(json.dumps([compiled, value, list(gradient)]))
"""


def run(*arguments: str) -> tuple[list[str], float, list[float]]:
    """What a fresh process compiled, and computed."""
    import json
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    compiled, value, gradient = json.loads(done.stdout)
    assert_close((value, gradient), (np.e, [1.0, 2.0 * np.e]))
    return compiled, value, gradient


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "kernels").glob("*" + cache.SUFFIXES[0]))


def test_a_second_process_does_not_compile(cache_dir):
    assert run()[0]
    assert run()[0] == []
    run("out")
    assert run("out")[0] == []


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def another_key(path: Path) -> None:
    path.write_bytes(cache.pack(cache.Key("something else"), b"payload"))


def not_a_pickle(path: Path) -> None:
    data = path.read_bytes()
    start = len(cache.MAGIC) + 32
    length = int.from_bytes(data[start:start + 8], "little")
    key = cache.Key(data[start + 8:start + 8 + length].decode())
    path.write_bytes(cache.pack(key, b"not a pickle"))


def writable_by_others(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("damage", [truncate, flip_a_byte, empty, another_key, not_a_pickle, writable_by_others])
def test_a_bad_entry_is_ignored_and_rebuilt(cache_dir, damage):
    run()
    for path in entries(cache_dir):
        damage(path)
    assert run()[0]
    assert run()[0] == []


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_an_entry_of_another_user_is_ignored(cache_dir):
    run()
    for path in entries(cache_dir):
        os.chown(path, 12345, 12345)
    assert run()[0]
    assert all(path.stat().st_uid == 0 for path in entries(cache_dir))


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_not_used(cache_dir):
    run()
    os.chown(cache_dir / "kernels", 12345, 12345)
    assert cache.folder() is None
    assert "another user" in str(cache.info())
    assert run()[0]


def test_a_link_in_the_place_of_the_folder_is_not_followed(cache_dir, tmp_path):
    cache_dir.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (cache_dir / "kernels").symlink_to(tmp_path / "elsewhere")
    assert cache.folder() is None
    assert "symbolic link" in str(cache.info())


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADCOMPILE_CACHE_DIR", str(tmp_path / "file"))
    assert cache.folder() is None
    cache.write_entry(cache.Key("a"), b"b")
    assert cache.read_entry(cache.Key("a")) is None


def test_the_key_names_everything_it_depends_on():
    signature = ("float64",)
    key = cache.Key.of("source", "f", signature)
    assert key != cache.Key.of("source ", "f", signature)
    assert key != cache.Key.of("source", "f_kernel", signature)
    assert key != cache.Key.of("source", "f", ("float32",))
    for part in (np.__version__, sys.version.split()[0], "source"):
        assert part in key.text


def test_another_version_is_another_entry(monkeypatch):
    key = cache.Key.of("source", "f", ())
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    assert cache.Key.of("source", "f", ()).filename != key.filename


def test_concurrent_writers(cache_dir):
    processes = [subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for _ in range(3)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert run()[0] == []
    assert not list((cache_dir / "kernels").glob("writing-*"))


def test_info_and_clear(cache_dir):
    cache.write_entry(cache.Key("a"), b"payload")
    cache.write_entry(cache.Key("b"), b"payload")
    assert cache.info().entries == 2
    assert str(cache_dir) in str(cache.info())
    assert cache.clear() == 2
    assert cache.info().entries == 0
    assert cache.clear() == 0


def test_the_folder_is_private(cache_dir):
    cache.write_entry(cache.Key("a"), b"payload")
    assert (cache_dir / "kernels").stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in entries(cache_dir))


def test_cache_false_writes_nothing(cache_dir):
    from adcompile import compile_grad
    compile_grad(lambda x: np.sum(x * x * x * 1.25), cache=False)(np.ones(2))
    assert not entries(cache_dir)


# ------------------------------------------------------------------------------------------------ recipes
def loss(w, x):
    return np.sum(np.exp(w * x))


@pytest.fixture
def recipes(cache_dir, monkeypatch):
    """Recipes are kept, as they are outside of tests; gives the number of times that the passes ran."""
    monkeypatch.delenv("ADCOMPILE_VERIFY", raising=False)
    runs = []
    original = pipeline.compile_function
    monkeypatch.setattr(pipeline, "compile_function", lambda *args, **kwargs: (runs.append(1), original(*args, **kwargs))[1])
    return runs


@pytest.mark.plain
def test_the_passes_run_once_for_all_processes(recipes):
    args = (np.ones(2), np.array([0.5, 1.0]))
    first, second = compile_grad(loss), compile_grad(loss)
    expected = first(*args)
    assert_close(second(*args), expected)
    assert len(recipes) == 1
    assert second.source == first.source
    assert second.guards == first.guards
    assert repr(second.latest) == repr(first.latest)
    assert len(recipes) == 1
    assert second.ir == first.ir                # here somebody looks
    assert second.loop_ir == first.loop_ir
    assert len(recipes) == 2


@pytest.mark.plain
def test_a_recipe_depends_on_the_function_and_the_options(recipes):
    args = (np.ones(2), np.array([0.5, 1.0]))
    made = [compile_grad(loss), compile_grad(loss, wrt=1), compile_grad(loss, fastmath=False), compile_grad(loss, name="other"),
            compile_grad(lambda w, x: np.sum(np.exp(w * x))), compile_grad(lambda w, x: np.sum(np.exp(w * x) + 1.0)),
            compile_value(loss)]
    results = [f(*args) for f in made]
    assert len(recipes) == len(made)
    assert_close(results[1][1], np.exp(args[1]))
    assert_close(results[5][0], results[0][0] + 2.0)
    assert_close(results[6], results[0][0])
    compile_grad(loss, cache=False)(*args)
    compile_grad(loss, debug=True)(*args)
    assert len(recipes) == len(made) + 2


@pytest.mark.plain
@pytest.mark.parametrize("damage", [truncate, flip_a_byte, empty, another_key, not_a_pickle, writable_by_others])
def test_a_bad_recipe_is_ignored_and_rebuilt(recipes, cache_dir, damage):
    args = (np.ones(2), np.array([0.5, 1.0]))
    expected = compile_grad(loss)(*args)
    for path in (cache_dir / "kernels").glob("*.recipe"):
        damage(path)
    assert_close(compile_grad(loss)(*args), expected)
    assert len(recipes) == 2
    assert_close(compile_grad(loss)(*args), expected)
    assert len(recipes) == 2


@pytest.mark.plain
def test_a_recipe_with_shared_loops(recipes, monkeypatch):
    monkeypatch.setattr(threads, "ENOUGH", 0)
    args = (np.ones(20), np.linspace(0.0, 1.0, 20))
    found = [compile_grad(loss, parallel=3)(*args) for _ in range(2)]
    assert_close(found[1], found[0])
    assert_close(found[0], compile_grad(loss, parallel=False)(*args))
