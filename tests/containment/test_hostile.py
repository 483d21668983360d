"""Hostile programs have no effect: no file, no network, no process, no signal; the owner's memory and time are bounded."""

import os
import resource
import socket
import subprocess
import time

import numpy as np
import pytest
from programs import BOUNDED, ENDLESS, HOSTILE, hostile

from llmwrappers import ContainedPolicy, PolicyFault
from llmwrappers.containment import policy, process

ALL = {**HOSTILE, **BOUNDED}


@pytest.fixture
def outside(tmp_path):
    """What an attack could change: a folder, a process, a port; asserts in the end that it changed nothing."""
    (tmp_path / "kept").write_text("kept")
    before = os.stat(tmp_path / "kept")
    with socket.socket() as server, subprocess.Popen(["sleep", "60"]) as victim:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        mine = os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE), os.getpriority(os.PRIO_PROCESS, 0)
        yield {
            "FOLDER": str(tmp_path),
            "VICTIM": str(victim.pid),
            "OWNER": str(os.getpid()),
            "PORT": str(server.getsockname()[1]),
        }
        assert victim.poll() is None
        victim.kill()
        with pytest.raises(BlockingIOError):
            server.accept()
        assert mine == (os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE), os.getpriority(os.PRIO_PROCESS, 0))
    after = os.stat(tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "kept"
    assert (before.st_mode, before.st_mtime, before.st_ino) == (after.st_mode, after.st_mtime, after.st_ino)


def play(source: str, outside: dict[str, str]) -> None:
    """Plays a policy for some calls; each ends in an array that is small, or in a fault."""
    for word, meaning in outside.items():
        source = source.replace(word, meaning)
    contained = ContainedPolicy(source)
    faults = []
    for _ in range(4):
        try:
            answer = contained(np.ones(3))
        except PolicyFault as fault:
            faults.append(str(fault))
        else:
            assert isinstance(answer, np.ndarray | set)
            assert np.size(answer) < 2**22
    contained.close()
    assert all(len(fault) < 500 and fault.isprintable() for fault in faults)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_effect(name, outside):
    play(hostile(HOSTILE[name]), outside)


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_in_memory(name, outside):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    play(hostile(BOUNDED[name]), outside)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


@pytest.mark.parametrize("name", ENDLESS)
def test_bounded_in_time(name, outside, monkeypatch):
    for module in (process, policy):
        monkeypatch.setattr(module, "SECONDS_A_MESSAGE", 0.3)
    start = time.monotonic()
    play(hostile(ENDLESS[name]), outside)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("name", HOSTILE)
def test_no_effect_while_the_code_is_read(name, outside):
    attempt = f"try:\n    {HOSTILE[name]}\nexcept BaseException:\n    pass\n"
    play(f"import numpy as np\nobs = np.ones(3)\n{attempt}def policy(obs):\n    return [5.0]", outside)


def test_it_knows_nothing_of_the_environment(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    source = "environ = __import__('os').environ\ndef policy(obs):\n    return [len(environ), 'SECRET_TOKEN' in environ]"
    count, has_token = ContainedPolicy(source)(np.ones(1))
    assert count < 10
    assert not has_token


def test_reading_is_refused_too(tmp_path):
    (tmp_path / "secret").write_text("secret")
    for attempt in (f"open({str(tmp_path / 'secret')!r}).read()", "open('/etc/hosts').read()", "__import__('os').listdir('/')"):
        contained = ContainedPolicy(f"def policy(obs):\n    return len({attempt})")
        with pytest.raises(PolicyFault, match="PermissionError|OSError|Operation not permitted"):
            contained(np.ones(1))


def test_a_late_import_is_refused():
    with pytest.raises(PolicyFault, match="Error"):
        ContainedPolicy("def policy(obs):\n    return len(__import__('wave').__name__)")(np.ones(1))


@pytest.mark.parametrize(
    "source", ["(" * 5000, "-" * 50_000 + "1", "[" * 90 + "]" * 90, "x = " + "1+" * 50_000 + "1", "\0", "x" * 300_000]
)
def test_a_text_that_is_hard_to_read(source):
    start = time.monotonic()
    with pytest.raises(ValueError):
        ContainedPolicy(source)
    assert time.monotonic() - start < 10
