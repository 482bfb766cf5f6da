"""What a program can do in here: the child that tries at the start of a sandbox.

Runs inside. Each trial does what a layer should prevent, and reports whether it was
prevented.
"""

import os
import socket

from rlvr_jax.envs.sandbox.child import Channel


def outside(setup: dict) -> dict:
    """Trials of the warm interpreter, which no filter of system calls binds yet.

    Args:
        setup: "secret", a file of the host that everybody may read ("" for none).
    """
    return {
        "namespaces": os.getpid() == 1 and _alone() and not _reaches_network(),
        "files": not _opens(setup["secret"], os.O_RDONLY)
        and not _opens("/rlvr-trial", os.O_WRONLY | os.O_CREAT),
        "user": os.getuid() != 0 and not _becomes_root(),
    }


def run_trial(job: dict, channel: Channel) -> None:
    """Trials of a child; sends {layer: it held}."""
    channel.send({"seccomp": not _forks(), "limits": _limited(job["limits"])})


def _alone():
    """No process but this namespace's own can be seen or signalled."""
    for pid in range(2, 400):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        except PermissionError:
            return False
        return False
    return True


def _reaches_network():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            # Sends nothing: it only asks for a way there.
            one.connect(("192.0.2.1", 9))
        except OSError:
            return len(socket.if_nameindex()) > 1
    return True


def _opens(path, flags):
    try:
        os.close(os.open(path, flags, 0o600))
    except OSError:
        return False
    if flags & os.O_CREAT:
        os.unlink(path)
    return True


def _becomes_root():
    try:
        os.setuid(0)
    except OSError:
        return False
    return True


def _forks():
    try:
        pid = os.fork()
    except OSError:
        return False
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def _limited(limits):
    try:
        bytearray(limits["memory"] + (64 << 20))
    except MemoryError:
        pass
    else:
        return False
    try:
        with open("trial", "wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                if file.tell() > limits["file"]:
                    return False
    except OSError:
        return True
    return False
