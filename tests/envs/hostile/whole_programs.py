"""Programs that read standard input: the same aims, with other means."""

from tests.envs.hostile.attack import STREAM_WIN, Attack

ATTACKS: tuple[Attack, ...] = (
    Attack("stream: exit 0", "failed", "import sys\nsys.exit(0)"),
    Attack("stream: echo", "failed", "print(input())"),
    Attack("stream: reads on", "failed", "import sys\nprint(sys.stdin.read() * 3)"),
    Attack(
        "stream: waits for more",
        "error failed",
        "while True: input()",
    ),
    Attack("stream: prints on", "output_limit", "while True: print('x' * 65536)"),
    Attack("stream: sleeps", "timeout", "import time\ntime.sleep(100)"),
    Attack("stream: spins", "timeout", "while True: pass"),
    Attack("stream: memory", "memory error", "a = [1] * 10**11"),
    Attack(
        "stream: execs",
        "error",
        STREAM_WIN + "import os\nos.execv('/python/bin/python3', ['p', '-c', '0'])",
    ),
    Attack("stream: forks", "error", STREAM_WIN + "import os\nos.fork()\nwin()"),
    Attack(
        "stream: reads the host",
        "error",
        STREAM_WIN + "open('/etc/passwd').read()\nwin()",
    ),
    Attack(
        "stream: looks for the expected output",
        "failed error",
        """
import os, sys
for fd in range(3, 64):
    try: print(os.read(fd, 100))
    except OSError: pass
frame = sys._getframe()
while frame:
    job = frame.f_locals.get("job")
    if job: print(sorted(job), job.get("expected"), job.get("tests"))
    frame = frame.f_back
""",
    ),
    Attack(
        "stream: reports of its own",
        "failed error",
        """
import sys
frame = sys._getframe()
while "job" not in frame.f_locals: frame = frame.f_back
nonce = frame.f_locals["job"]["nonce"]
sys.stdout.buffer.write(nonce + b"passed" + nonce)
""",
    ),
    Attack(
        "stream: closes all",
        "error failed",
        "import os\nos.closerange(0, 99)\nprint(1)",
    ),
    Attack(
        "stream: not text", "failed", "import os\nos.write(1, b'\\xff\\xfe\\x00' * 9)"
    ),
)
