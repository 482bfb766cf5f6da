"""Layers of the sandbox: found by doing, missed when taken away, and required."""

import logging
import os
import pathlib
import struct
import sys

import pytest

from rlvr_jax import envs
from rlvr_jax.envs.sandbox import LAYERS, Sandbox, SandboxError, cgroups, pool, wall
from rlvr_jax.tasks.records import Task

TASK = Task("t", "programs", "", tests=((1, 1),))
REFUSED = "bwrap: No permissions to create new namespace"


def held(sandbox):
    return {name for name, holds in sandbox.layers.held.items() if holds}


@pytest.fixture
def lines(caplog):
    """A function: the start-up lines that were logged."""
    caplog.set_level(logging.INFO, logger="rlvr_jax")
    return lambda: [
        r.message for r in caplog.records if r.message.startswith("sandbox")
    ]


def test_this_host_holds_what_the_suite_relies_on(lines):
    with envs.make_verifier(
        "programs", require=("namespaces", "files", "user", "seccomp", "limits")
    ) as verifier:
        described = verifier.describe()["sandbox"]
    assert described["wall"] == "bubblewrap"
    assert set(described["layers"]) == set(LAYERS)
    (line,) = lines()
    assert line.startswith("sandbox: namespaces, files, user, seccomp, limits")


def test_a_layer_that_is_none():
    with pytest.raises(
        ValueError, match=r"require: wanted names of namespaces, .*'wal'"
    ):
        Sandbox(require=("wal",))


@pytest.fixture
def no_bwrap(monkeypatch):
    monkeypatch.setattr(wall, "find_bwrap", lambda: None)


def test_no_bubblewrap_no_sandbox(no_bwrap):
    with pytest.raises(SandboxError, match=r"no `bwrap` on PATH and no wheel.*install"):
        Sandbox()


def test_no_bubblewrap_but_a_flag(no_bwrap, lines):
    with envs.make_verifier("programs", workers=1, allow_unsafe=True) as verifier:
        assert held(verifier.sandbox) - {"cgroup"} == {"seccomp", "limits"}
        assert verifier.verify([(TASK, "x")])[0].solved
    (line,) = lines()
    assert "not held: namespaces (no `bwrap` on PATH and no wheel), files" in line


def test_what_is_required_is_required_with_the_flag_too(no_bwrap):
    message = (
        r"does not hold namespaces \(no `bwrap`.*\), user .*; install bubblewrap.*"
        r" or take it out of sandbox.require"
    )
    with pytest.raises(SandboxError, match=message):
        Sandbox(allow_unsafe=True, require=("namespaces", "seccomp", "user"))


@pytest.fixture
def no_user_namespaces(monkeypatch, tmp_path):
    """A bubblewrap that says what the real one says where the host forbids them."""
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\necho '{REFUSED}' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def test_no_user_namespaces(no_user_namespaces, lines):
    with pytest.raises(SandboxError, match=rf"{REFUSED}.*allow user namespaces"):
        Sandbox()
    sandbox = Sandbox(workers=1, allow_unsafe=True)
    sandbox.close()
    assert REFUSED in lines()[-1]
    with pytest.raises(SandboxError, match=REFUSED):
        Sandbox(allow_unsafe=True, require=("namespaces",))


@pytest.fixture
def no_seccomp(monkeypatch):
    wall.child_filter.cache_clear()
    # What an import finds where the package, or libseccomp under it, is missing.
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    yield
    wall.child_filter.cache_clear()


def test_no_seccomp(no_seccomp, lines):
    with envs.make_verifier("programs", workers=1) as verifier:
        assert held(verifier.sandbox) >= {"namespaces", "files", "user", "limits"}
        assert "seccomp" not in held(verifier.sandbox)
        assert verifier.verify([(TASK, "x")])[0].solved
    (line,) = lines()
    assert "not held: seccomp (libseccomp or pyseccomp is missing)" in line
    with pytest.raises(SandboxError, match=r"hold seccomp .*pip install pyseccomp"):
        Sandbox(require=("seccomp",))


def test_no_control_groups(monkeypatch, lines, tmp_path):
    monkeypatch.setattr(cgroups, "_MOUNT", tmp_path)
    with envs.make_verifier("programs", workers=1) as verifier:
        assert "cgroup" not in held(verifier.sandbox)
        assert verifier.verify([(TASK, "x")])[0].solved
    assert "cgroup (not permitted here:" in lines()[0]
    with pytest.raises(SandboxError, match=r"hold cgroup .*Delegate=yes"):
        Sandbox(require=("cgroup",))


def test_a_refused_start_leaves_nothing(no_bwrap, monkeypatch):
    made = []
    build = pool.Container

    def container(**settings):
        made.append(build(**settings))
        return made[-1]

    monkeypatch.setattr(pool, "Container", container)
    with pytest.raises(SandboxError):
        Sandbox(allow_unsafe=True, require=("user",))
    assert [one.process for one in made] == [None]
    folder = pathlib.Path("/tmp")
    mine = {p.name for p in folder.glob("rlvr-unsafe-*")}
    with pytest.raises(SandboxError):
        Sandbox(allow_unsafe=True, require=("user",))
    assert {p.name for p in folder.glob("rlvr-unsafe-*")} == mine


def test_unified_control_groups(monkeypatch, tmp_path):
    """Version 2, which a host may or may not have: its files, and what is written."""
    own = tmp_path / "user.slice" / "run.scope"
    own.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    for folder, controls in ((own, ""), (own.parent, "memory pids")):
        (folder / "cgroup.subtree_control").write_text(controls)
    monkeypatch.setattr(cgroups, "_MOUNT", tmp_path)
    monkeypatch.setattr(cgroups, "_own", lambda controller: "user.slice/run.scope")
    # Ours cannot be divided while it has processes: writing to its control fails.
    real = pathlib.Path.write_text

    def write_text(path, text):
        if path == own / "cgroup.subtree_control":
            raise OSError("busy")
        return real(path, text)

    monkeypatch.setattr(pathlib.Path, "write_text", write_text)
    group = cgroups.Cgroup(memory_bytes=1 << 28, processes=20)
    (folder,) = group.folders
    assert folder.parent == own.parent
    assert (folder / "memory.max").read_text() == str(1 << 28)
    assert (folder / "pids.max").read_text() == "20"
    command = group.command(["true", "a b"])
    assert command[-2:] == ["true", "a b"]
    assert f"echo $$ >{folder}/cgroup.procs && exec" in command[2]


@pytest.mark.parametrize(
    ("architecture", "audit", "fork", "read"),
    [("x86_64", 0xC000003E, 57, 0), ("aarch64", 0xC00000B7, None, 63)],
)
def test_the_filter_of_each_architecture(architecture, audit, fork, read):
    """The allow-list as the kernel would run it, on a machine of another kind too."""
    program = [
        struct.unpack_from("<HBBI", wall.child_filter(architecture), at)
        for at in range(0, len(wall.child_filter(architecture)), 8)
    ]
    allow, refuse, kill = 0x7FFF0000, 0x00050001, 0x00000000
    assert run(program, audit, read) == allow
    assert run(program, audit, 435) == 0x00050000 | 38  # clone3: not there
    assert run(program, audit, 425) == refuse  # io_uring_setup
    if fork is not None:
        assert run(program, audit, fork) == refuse
        assert run(program, audit, 0x40000000 + read) == kill  # x32
    clone = {"x86_64": 56, "aarch64": 220}[architecture]
    assert run(program, audit, clone, 0x00010000) == allow  # a thread
    assert run(program, audit, clone, 17) == refuse  # a process
    assert run(program, 0x40000003, read) == kill  # another architecture


def run(program, audit, number, argument=0):
    """What a filter (classic BPF) answers to one system call."""
    data = struct.pack("<IIQ6Q", number, audit, 0, argument, 0, 0, 0, 0, 0)
    at, value = 0, 0
    while True:
        code, yes, no, k = program[at]
        at += 1
        if code == 0x20:  # load
            (value,) = struct.unpack_from("<I", data, k)
        elif code == 0x54:  # and
            value &= k
        elif code == 0x05:  # jump
            at += k
        elif code in (0x15, 0x25, 0x35, 0x45):  # equal, above, at least, any bit
            holds = {
                0x15: value == k,
                0x25: value > k,
                0x35: value >= k,
                0x45: bool(value & k),
            }[code]
            at += yes if holds else no
        elif code == 0x06:  # answer
            return k
        else:
            raise AssertionError(f"unknown instruction {code:#x}")
