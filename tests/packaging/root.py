"""A clean Debian or Ubuntu in a folder, in which packages are installed and programs run; nothing is booted."""

import hashlib
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MIRRORS = {
    "bookworm": "http://deb.debian.org/debian",
    "trixie": "http://deb.debian.org/debian",
    "jammy": "http://archive.ubuntu.com/ubuntu",
    "noble": "http://archive.ubuntu.com/ubuntu",
}
UBUNTU_KEYS = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}

NOISE = ("proc/", "root/", "run/", "tmp/", "var/lib/dpkg/", "var/log/", "var/cache/ldconfig/", "usr/lib/sysimage/")
"""What tells of dpkg's work, not of the package."""


def debootstrap(release: str, cache: Path) -> Path:
    """Return a tar file of a small system with what the package depends on, made once and kept in a folder.

    A release of another processor is written with it, as in `bookworm-arm64`; its packages are configured by emulation.
    """
    archive = cache / f"{release}.tar"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        folder = cache / release
        name, _, architecture = release.partition("-")
        # What it mounts below the folder ends with it, however it ends: nothing but the folder is ever removed.
        command = ["unshare", "--mount", "debootstrap", "--variant=minbase", "--include=procps,python3,systemd"]
        script = []
        if "ubuntu" in MIRRORS[name]:
            # Debian has no keys of Ubuntu's; these roots live for one test and hold nothing of worth. Nor need it know
            # a newer release's name: all of Ubuntu's are made as gutsy was.
            command += [f"--keyring={UBUNTU_KEYS}"] if UBUNTU_KEYS.exists() else ["--no-check-gpg"]
            script = ["gutsy"]
        if architecture:
            command += ["--foreign", f"--arch={architecture}"]
        try:
            words = [*command, name, str(folder), MIRRORS[name], *script]
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            assert done.returncode == 0, done.stdout[-1000:]
            if architecture:
                # It takes the user namespace for a container's, where no devices can be made.
                second = ["env", "container=lxc", "/debootstrap/debootstrap", "--second-stage"]
                code, text = EmulatedRoot(folder).run(*second, network=True)
                assert code == 0, text
            shutil.rmtree(folder / "var/cache/apt/archives")
            # Ready under its name only when it is whole.
            part = archive.with_suffix(".part")
            subprocess.run(["tar", "--numeric-owner", "-C", str(folder), "-cf", str(part), "."], check=True)
            part.rename(archive)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return archive


@dataclass(frozen=True)
class Root:
    """A system below `folder`. Its /proc is mounted in a namespace that ends with each command."""

    folder: Path

    @classmethod
    def unpacked(cls, archive: Path, folder: Path) -> "Root":
        folder.mkdir()
        subprocess.run(["tar", "--numeric-owner", "-C", str(folder), "-xf", str(archive)], check=True)
        return cls(folder)

    def command(self, *words: str, network: bool = False, user: str = "root", **variables: str) -> list[str]:
        """Return a command that runs another inside of the root, without a network unless it is asked for."""
        environment = [f"{key}={value}" for key, value in {**ENVIRONMENT, **variables}.items()]
        inside = ["chroot", f"--userspec={user}:{user}", str(self.folder), "env", "-i", *environment, *words]
        if user != "root":  # as initgroups(3), which chroot does only if it is told the groups
            inside.insert(1, f"--groups={','.join(self.groups(user))}")
        return [*([] if network else ["unshare", "--net"]), *self.enter(), *inside]

    def enter(self) -> list[str]:
        """Return the beginning of a command that sees the root's /proc, and no process but itself and its own."""
        mount = 'mount -t proc proc "$0/proc" && exec "$@"'
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mount, str(self.folder)]

    def run(self, *words: str, network: bool = False) -> tuple[int, str]:
        """Run a command to its end; returns its exit code and all that it printed."""
        done = subprocess.run(
            self.command(*words, network=network),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=3600,
        )
        return done.returncode, done.stdout

    def dpkg(self, *words: str) -> str:
        """Run dpkg, which must succeed; returns what it printed."""
        code, text = self.run("dpkg", *words)
        assert code == 0, text
        return text

    def install(self, deb: Path, *options: str) -> None:
        """Install a package with dpkg alone, without a network."""
        shutil.copy(deb, self.folder / "root")
        self.dpkg(*options, "--install", f"/root/{deb.name}")

    def groups(self, user: str) -> list[str]:
        """Return the numbers of all groups of a user."""
        _, text = self.run("id", "-G", user)
        return text.split()

    def listing(self) -> dict[str, str]:
        """Return every path, with kind, mode, owner and digest, but for what dpkg writes about its own work."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if name.startswith(NOISE):
                continue
            status = path.lstat()
            content = ""
            if stat.S_ISLNK(status.st_mode):
                content = str(path.readlink())
            elif stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid} {content}".rstrip()
        return found


class EmulatedRoot(Root):
    """A system of another processor; its programs run under qemu."""

    def enter(self) -> list[str]:
        """Return the beginning of a command that is emulated."""
        return [sys.executable, str(Path(__file__).with_name("emulated.py")), str(self.folder)]
