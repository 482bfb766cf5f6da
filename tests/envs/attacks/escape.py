"""Programs that reach for the host.

Name: (source, its status, or None where several are right).
"""

ATTACKS = {
    "kill": (
        """
import os
def f(x):
 os.kill(1, 9)
 os.kill(-1, 9)
""",
        "error",
    ),
    "exec": (
        """
import os
def f(x): os.execv('/python/bin/python3', ['python3'])
""",
        "error",
    ),
    "socket": (
        """
import socket
def f(x): socket.socket()
""",
        "error",
    ),
    "host files": ("def f(x): return open('/etc/passwd').read()", "error"),
    # The suite looks for this file afterwards.
    "write host": (
        """
def f(x):
 open('/HOST_FILE', 'w').write('x')
 return 0
""",
        None,
    ),
    "write system": (
        """
import os
def f(x): open(os.__file__, 'a')
""",
        "error",
    ),
    "ptrace": (
        """
import ctypes
def f(x): return ctypes.CDLL(None).ptrace(16, 1, 0, 0)
""",
        None,
    ),
    "mount": (
        """
import ctypes
def f(x): return ctypes.CDLL(None).mount(b'/', b'/tmp', b'', 4096, None)
""",
        "failed",
    ),
    "chroot": (
        """
import os
def f(x): os.chroot('/tmp')
""",
        "error",
    ),
    "becomes root": (
        """
import os
def f(x): os.setuid(0)
""",
        "error",
    ),
    "new namespaces": (
        """
import ctypes
def f(x): return ctypes.CDLL(None).unshare(0x10000000)
""",
        "failed",
    ),
    "device": (
        """
import os
def f(x): os.mknod('/tmp/d', 0o60666, os.makedev(8, 0))
""",
        "error",
    ),
    "raw memory": ("def f(x): return open('/dev/mem', 'rb').read(1)", "error"),
    "link to the host": (
        """
import os
def f(x):
    os.symlink("/etc/shadow", "/tmp/a")
    return open("/tmp/a").read()
""",
        "error",
    ),
    "upwards": ("def f(x): return open('/tmp/../../../../etc/passwd').read()", "error"),
    "its own interpreter": (
        """
import os
def f(x): os.rename('/python', '/tmp/p')
""",
        "error",
    ),
    "raw system calls": (
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
# keyctl, bpf, io_uring_setup, userfaultfd, perf_event_open, process_vm_readv
NUMBERS = 250, 321, 425, 323, 298, 310
def f(x): return [libc.syscall(n, 0, 0, 0, 0, 0) for n in NUMBERS]
""",
        "failed",
    ),
    "calls of another word size": (
        """
import ctypes
def f(x): return ctypes.CDLL(None).syscall(0x40000000 + 57)
""",
        "error",
    ),
    "pipe to its parent": (
        """
import os
def f(x):
    os.kill(os.getppid(), 9)
    return 0
""",
        None,
    ),
    "socket of the host": (
        """
import socket
def f(x): socket.create_connection(("127.0.0.1", 22))
""",
        "error",
    ),
    "shell": (
        """
import os
def f(x): return os.system('id')
""",
        "failed",
    ),
    "process": (
        """
import subprocess
def f(x): return subprocess.check_output('id')
""",
        "error",
    ),
    "several processes": (
        """
import multiprocessing
def f(x): return multiprocessing.Pool(2).map(abs, [1])
""",
        "error",
    ),
}
