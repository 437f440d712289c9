"""A CPython for ARM with packages from PyPI, run by qemu on packages of Debian's that are only unpacked.

It needs Debian 12's archive and PyPI, once per machine: what comes from there is kept in the user's cache.
Subprocesses of this Python would run unemulated, and fail.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from rig.arm.machines import AARCH64, ARMV7, Architecture, MissingToolError, emulated, require

DEBIAN = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libgcc-s1", "libstdc++6"),
    *("zlib1g", "libbz2-1.0", "libcrypt1", "libexpat1", "libffi8", "liblzma5", "libsqlite3-0", "libssl3", "libuuid1"),
)
DEBIAN_NAMES = {AARCH64: "arm64", ARMV7: "armhf"}
COMPILED = {
    AARCH64: (),
    ARMV7: ("python3-numpy", "libblas3", "liblapack3", "libgfortran5", "libgcc-s1", "python3-yaml", "libyaml-0-2"),
}
"""Debian's packages in place of wheels that PyPI does not have."""
PLATFORMS = {
    AARCH64: ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64"),
    ARMV7: ("manylinux_2_31_armv7l", "manylinux_2_17_armv7l", "manylinux2014_armv7l"),
}

_ARMV8 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
_ARMV82 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
FEATURES = {
    "cortex-a53": ("0xd03", _ARMV8),
    "cortex-a57": ("0xd07", _ARMV8),
    "cortex-a72": ("0xd08", _ARMV8),
    "cortex-a55": ("0xd05", _ARMV82),
    "cortex-a76": ("0xd0b", _ARMV82),
    **dict.fromkeys(("max", "max-without-sme"), ("0xd4d", f"{_ARMV82} i8mm bf16")),
    "cortex-a7": ("0xc07", "half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32"),
}
"""What /proc/cpuinfo says of a processor: libraries read it, and qemu would show that of this machine."""


class EmulatedPython:
    """An interpreter on one processor of `FEATURES`, with `requirements` from PyPI; those of armv7 must have wheels.

    Raises MissingToolError if qemu or Debian's keys are missing, RuntimeError if something cannot be downloaded.
    """

    def __init__(
        self, processor: str, requirements: Sequence[str], name: str, architecture: Architecture = AARCH64
    ) -> None:
        require({architecture.emulator: "qemu-user", "apt-get": "apt", "dpkg-deb": "dpkg"}, "emulated Python")
        if not KEYRING.exists():
            raise MissingToolError(
                "no emulated Python: no keys of Debian's archive (Debian package debian-archive-keyring)"
            )
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgemeta" / "arm-python"
        folder.mkdir(parents=True, exist_ok=True)
        self.packages = folder / f"{name}-{sha256(repr(requirements).encode()).hexdigest()[:16]}"
        self._root = folder / f"root-{processor}"
        self._processor = processor
        self._emulator = architecture.emulator
        self.path = os.pathsep.join(map(str, (self.packages, self._root / "usr/lib/python3/dist-packages")))
        with (folder / "lock").open("w") as lock:  # one process downloads, the others wait for it
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self._root / "ready").exists():
                _unpack_debian(folder, self._root, architecture)
                _describe_processor(self._root, processor)
                (self._root / "ready").touch()
            _install(self.packages, requirements, PLATFORMS[architecture])

    def command(self, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """The command of this Python with its arguments; options: of qemu."""
        interpreter = str(self._root / "usr/bin/python3.11")
        found = (
            self._root / "usr/lib/arm-linux-gnueabihf"
        )  # what armv7's NumPy needs, where Debian's alternatives find it
        libraries = f"LD_LIBRARY_PATH={found}/blas:{found}/lapack"
        emulator = [self._emulator, "-cpu", emulated(self._processor), "-L", str(self._root), "-E", libraries]
        return [*emulator, *options, interpreter, *arguments]


def _unpack_debian(folder: Path, root: Path, architecture: Architecture) -> None:
    """Download the packages with an apt of its own state, which knows nothing of this machine's."""
    name = DEBIAN_NAMES[architecture]
    state = folder / ("apt" if architecture is AARCH64 else f"apt-{name}")
    for part in ("state/lists/partial", "cache/archives/partial", "packages"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    sources = state / "sources.list"
    sources.write_text(f"deb [arch={name} signed-by={KEYRING}] {DEBIAN} bookworm main\n")
    settings = {
        "Dir::State": state / "state",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": name,
        "APT::Architectures": name,
        "APT::Sandbox::User": "root",
        "Acquire::Retries": "5",
    }
    apt = ["apt-get", "-qq", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]
    if not (state / "downloaded").exists():
        _run([*apt, "update"], state)
        _run([*apt, "download", *PACKAGES, *COMPILED[architecture]], state / "packages")
        (state / "downloaded").touch()
    for package in (state / "packages").glob("*.deb"):
        _run(["dpkg-deb", "-x", str(package), str(root)], state)


def _describe_processor(root: Path, processor: str) -> None:
    """Write a /proc/cpuinfo with as many cores as this machine's /sys shows: libraries compare the two."""
    part, features = FEATURES[processor]
    lines = {
        "Features": features,
        "CPU implementer": "0x41",
        "CPU architecture": "8",
        "CPU variant": "0x1",
        "CPU part": part,
        "CPU revision": "0",
    }
    core = "".join(f"{key}\t: {value}\n" for key, value in lines.items())
    (root / "proc").mkdir(exist_ok=True)
    text = "".join(f"processor\t: {number}\n{core}\n" for number in range(os.cpu_count() or 1))
    (root / "proc/cpuinfo").write_text(text)


def _install(folder: Path, requirements: Sequence[str], names: Sequence[str]) -> None:
    """Unpack wheels for ARM, unless the folder has them."""
    done = folder / "done"
    if done.exists():
        return
    platforms = [word for platform in names for word in ("--platform", platform)]
    target = ["--only-binary=:all:", *platforms, "--python-version", "3.11", "--implementation", "cp"]
    options = ["--quiet", "--no-compile", "--upgrade", "--target", str(folder)]
    _run([sys.executable, "-m", "pip", "install", *options, *target, *requirements], folder.parent)
    done.touch()


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]}")
