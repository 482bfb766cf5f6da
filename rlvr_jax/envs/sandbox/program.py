"""What a forked child does with a whole program: it is its interpreter.

Runs inside the sandbox. Descriptors 0 and 1 are a file and a pipe of their own, so
that every way to read and write works. What was written is judged outside.
"""

import atexit
import io
import os
import sys
import threading
import types

from rlvr_jax.envs import extraction
from rlvr_jax.envs.sandbox import child, codec

# Looked up before untrusted code runs, which may patch the modules.
_write = os.write
_exit = os._exit
_frame = codec.frame
_describe = child.describe


def run_program(job: dict, channel: child.Channel) -> None:
    """Runs one program as `__main__` and ends the process with its exit code.

    What goes wrong in it is told after its output: the job's nonce, then a frame.
    """
    child.write_files(job["files"])
    _connect(job["stdin"], channel)
    chosen = extraction.choose(job["candidates"], "")
    module = types.ModuleType("__main__")
    module.__file__ = "solution.py"
    sys.modules["__main__"] = module
    sys.argv = ["solution.py"]
    try:
        code = compile(job["candidates"][chosen], child.SOLUTION_FILE, "exec")
        if job["preamble"]:
            exec(compile(job["preamble"], "<preamble>", "exec"), module.__dict__)
    except BaseException as error:
        _end(job, channel, ("load_error", chosen, *_describe(error)), 1)
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        _end(job, channel, None, _exit_code(error.code))
    except BaseException as error:
        _end(job, channel, ("error", chosen, *_describe(error)), 1)
    _end(job, channel, None, 0)


def _connect(stdin, channel):
    """Makes the standard streams, as an interpreter does at its start."""
    # A file and not a pipe: nobody has to feed it while the program runs.
    fd = os.open("stdin", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.unlink("stdin")
    data = memoryview(stdin.encode("utf-8", "surrogatepass"))
    while data:
        data = data[os.write(fd, data) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)
    os.dup2(channel.write_fd, 1)
    os.close(channel.read_fd)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w")):
        raw = io.FileIO(number, mode, closefd=False)
        buffered = (io.BufferedReader if mode == "r" else io.BufferedWriter)(raw)
        stream = io.TextIOWrapper(buffered, "utf-8", "surrogateescape")
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _exit_code(code):
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _end(job, channel, report, code):
    """Ends as an interpreter does: threads, atexit, streams; then the report."""
    for step in (threading._shutdown, atexit._run_exitfuncs, *_flushes()):
        try:
            step()
        except BaseException:
            # What an exit function raises does not change how a program ended.
            continue
    if report is not None:
        data = memoryview(job["nonce"] + _frame(report))
        while data:
            data = data[_write(channel.write_fd, data) :]
    _exit(code)


def _flushes():
    streams = {id(stream): stream for stream in (sys.stdout, sys.__stdout__)}
    return [
        lambda stream=stream: stream.flush() for stream in streams.values() if stream
    ]
