"""Programs that reach for the host: its files, network, processes and kernel."""

from tests.envs.hostile.attack import LIBC, Attack, breaking, calling

# Machine code of a 32-bit call of getpid; it returns a process id if it is let.
FOREIGN = r"""
import mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
def f(x):
    if ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0: return win(x)
"""

ATTACKS: tuple[Attack, ...] = (
    breaking(
        "exec",
        "error",
        """
import os, sys
def f(x): os.execv("/python/bin/python3", ["python3", "-c", "print()"])
""",
    ),
    breaking(
        "internet socket",
        "error",
        "import socket\ndef f(x):\n socket.socket()\n return win(x)",
    ),
    breaking(
        "unix socket",
        "error",
        "import socket\ndef f(x):\n socket.socketpair()\n return win(x)",
    ),
    calling("netlink socket", "socket(16, 3, 0)"),
    calling("packet socket", "socket(17, 3, 768)"),
    *(
        breaking(
            f"reads {path}",
            "error",
            f"def f(x):\n open({path!r}).read()\n return win(x)",
        )
        for path in (
            "/etc/passwd",
            "/etc/shadow",
            "/etc/hostname",
            "/proc/self/environ",
            "/proc/1/cmdline",
            "/sys/kernel/vmcoreinfo",
            "/dev/kmsg",
            "/dev/mem",
            "/root/.bashrc",
            "/tmp/../etc/passwd",
        )
    ),
    breaking(
        "lists the home folders",
        "error",
        "import os\ndef f(x):\n os.listdir('/home')\n return win(x)",
    ),
    breaking(
        "writes the library",
        "error",
        "import os\ndef f(x):\n open(os.__file__, 'a')\n return win(x)",
    ),
    breaking(
        "writes at the root",
        "error",
        "def f(x):\n open('/escaped', 'w').write('x')\n return win(x)",
    ),
    breaking(
        "makes the root writable",
        "failed error",
        f"""
{LIBC}
def f(x):
    libc.mount(None, b"/", None, 32 | 4096, None)
    open("/escaped", "w")
    return win(x)
""",
    ),
    breaking(
        "leaves by a link",
        "error",
        """
import os
def f(x):
    os.symlink("/etc", "/tmp/etc")
    open("/tmp/etc/passwd")
    return win(x)
""",
    ),
    breaking(
        "makes a device",
        "error",
        """
import os, stat
def f(x):
    os.mknod("/tmp/disk", stat.S_IFBLK | 0o666, os.makedev(8, 0))
    return win(x)
""",
    ),
    breaking(
        "makes a file of another user",
        "error",
        """
import os
def f(x):
    open("/tmp/own", "w")
    os.chown("/tmp/own", 0, 0)
    os.chmod("/tmp/own", 0o4755)
    return win(x)
""",
    ),
    breaking(
        "becomes root",
        "error",
        "import os\ndef f(x):\n os.setuid(0)\n return win(x)",
    ),
    breaking(
        "kills process 1",
        "error",
        "import os\ndef f(x):\n os.kill(1, 9)\n return win(x)",
    ),
    breaking(
        "kills everybody",
        "error",
        "import os\ndef f(x):\n os.kill(-1, 9)\n return win(x)",
    ),
    breaking(
        "stops its group",
        "error",
        "import os, signal\ndef f(x):\n os.killpg(0, signal.SIGSTOP)\n return win(x)",
    ),
    calling("traces process 1", "ptrace(16, 1, 0, 0)"),
    calling("asks to be traced", "ptrace(0, 0, 0, 0)"),
    calling("new user namespace", "unshare(0x10000000)"),
    calling("new mount namespace", "unshare(0x20000)"),
    calling("joins a namespace", "setns(0, 0)"),
    calling("changes its root", "chroot(b'/tmp')"),
    calling("hangs on a terminal", "vhangup()"),
    calling("asks the kernel log", "klogctl(3, ctypes.create_string_buffer(99), 99)"),
    calling("reboots", "reboot(0x01234567)"),
    calling("renames the host", "sethostname(b'x', 1)"),
    calling("loads a kernel program", "syscall(321, 0, 0, 0)"),
    calling("counts events", "syscall(298, 0, 0, -1, -1, 0)"),
    calling("handles page faults", "syscall(323, 0)"),
    calling("makes a ring", "syscall(425, 8, ctypes.create_string_buffer(200))"),
    calling("keyring", "syscall(250, 0, -3, 1)"),
    calling("file in memory", "syscall(319, b'x', 0)"),
    calling("shared memory of system V", "shmget(77, 4096, 0o1666)"),
    calling("message queue", "syscall(240, b'q', 66, 0o666, 0)"),
    calling("reads another memory", "process_vm_readv(1, 0, 0, 0, 0, 0)"),
    calling("opens a process", "syscall(434, 1, 0)"),
    calling("takes a descriptor", "syscall(438, 0, 0, 0)"),
    calling("new personality", "personality(0x0040000)"),
    calling("real time", "sched_setscheduler(0, 1, ctypes.byref(ctypes.c_int(1)))"),
    calling("locks memory", "mlockall(3)"),
    calling("sets the clock", "settimeofday(ctypes.create_string_buffer(16), None)"),
    calling("adds a filter", "prctl(22, 2, ctypes.create_string_buffer(16))"),
    calling("is dumpable again", "prctl(4, 1, 0, 0, 0)"),
    # The x32 form of getpid, and the 32-bit one: both kill.
    calling("x32 call", "syscall(0x40000000 + 39)"),
    breaking("32-bit call", "error", LIBC + FOREIGN),
)
