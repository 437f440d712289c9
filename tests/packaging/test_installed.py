"""The Debian package in clean systems: installed without a network, run, upgraded, removed, purged without a trace."""

import json
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgemeta import __version__
from rig.broker import Mosquitto
from tests.packaging.root import Root

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

RELEASES = ("bookworm", "trixie", "jammy", "noble")
"""Debian 12 and 13, Ubuntu 22.04 and 24.04: Python 3.11, 3.13, 3.10, 3.12."""

WANTED = "etc/systemd/system/multi-user.target.wants/edgemeta.service"
USERS = {f"etc/{name}{old}" for name in ("passwd", "group", "shadow", "gshadow") for old in ("", "-")}
DEADLINE = 120.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    """The port of a mosquitto outside of the roots."""
    mosquitto = Mosquitto(tmp_path)
    if not mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian packages mosquitto, mosquitto-clients)")
    mosquitto.start()
    yield mosquitto.port
    mosquitto.stop()


@pytest.fixture
def deb(architecture: str, built: Callable[[str], Path]) -> Path:
    """The package for this machine."""
    return built(architecture)


@pytest.mark.parametrize("release", RELEASES)
def test_a_life_from_installation_to_purge(
    release: str, deb: Path, clean_root: Callable[[str], Root], broker: int, tmp_path: Path
) -> None:
    root = clean_root(release)
    config = root.folder / "etc/edgemeta/config.yaml"
    before = root.listing()

    root.install(deb)
    assert root.run("edgemeta", "--version") == (0, f"edgemeta, version {__version__}\n")
    code, said = root.run("edgemeta", "check", "/etc/edgemeta/config.yaml")
    assert code == 0, said
    assert "would run resnet8-cifar10" in said
    assert (root.folder / WANTED).is_symlink(), "enabled"
    code, said = root.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/edgemeta.service")
    assert (code, "edgemeta" in said) == (0, False), said
    assert who_reads(root, config) == ("-rw-r-----", "root:edgemeta")
    assert list((root.folder / "usr/lib/edgemeta/packages/edgemeta/cli/__pycache__").glob("main.*.pyc")), "compiled"

    # A minimal root has no /etc/hosts; ports of this machine may be taken.
    for old, new in (("localhost", "127.0.0.1"), ("1883", str(broker)), ("enabled: true", "enabled: true\n  port: 0")):
        assert old in config.read_text()
        config.write_text(config.read_text().replace(old, new))
    with service(root):
        frames = received(broker, 20)
    assert [frame["sequence"] for frame in frames] == list(range(frames[0]["sequence"], frames[0]["sequence"] + 20))

    # The operator's edits survive an upgrade, also one to a package whose own config has changed.
    edited = config.read_text() + "# mine\n"
    config.write_text(edited)
    root.install(newer(deb, "9.1", tmp_path))
    assert config.read_text() == edited
    root.install(newer(deb, "9.2", tmp_path, "# theirs\n"), "--force-confold")
    assert config.read_text() == edited
    assert config.with_name("config.yaml.dpkg-dist").read_text().endswith("# theirs\n")
    assert who_reads(root, config) == ("-rw-r-----", "root:edgemeta")
    assert root.run("edgemeta", "check", "/etc/edgemeta/config.yaml")[0] == 0

    # A service that does not start is no fault of dpkg's: the config is wrong, and no systemd answers.
    config.write_text("cameras: 7\n")
    assert root.run("edgemeta", "check", "/etc/edgemeta/config.yaml")[0] == 78
    booted = root.folder / "run/systemd/system"
    booted.mkdir(parents=True)
    root.install(newer(deb, "9.3", tmp_path), "--force-confold")
    root.dpkg("--remove", "edgemeta")
    booted.rmdir()

    # Removed: the program is gone, what is the operator's is there. Purged: nothing is left but the user.
    assert not (root.folder / "usr/lib/edgemeta").exists()
    assert config.read_text() == "cameras: 7\n"
    assert (root.folder / "var/lib/edgemeta").is_dir()
    root.dpkg("--purge", "edgemeta")
    after = root.listing()
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed <= USERS | {"etc/.pwd.lock"}


def test_a_python_that_the_package_has_no_libraries_for_is_named(
    deb: Path, clean_root: Callable[[str], Root], tmp_path: Path
) -> None:
    root = clean_root("bookworm")
    root.install(deb)
    (root.folder / "usr/lib/edgemeta/python3.11").rename(root.folder / "usr/lib/edgemeta/gone")
    code, said = root.run("edgemeta", "--version")
    assert code == 1
    assert said.startswith("edgemeta: the package has no libraries for python3.11, only for python3.10, ")


def test_lintian_finds_nothing_but_what_is_overridden_with_a_reason(deb: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed (Debian package lintian)")
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", str(deb)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def who_reads(root: Root, path: Path) -> tuple[str, str]:
    """Return a file's mode and its owner by the root's own names."""
    inside = f"/{path.relative_to(root.folder)}"
    return stat.filemode(path.stat().st_mode), root.run("stat", "-c", "%U:%G", inside)[1].strip()


@contextmanager
def service(root: Root) -> Iterator[None]:
    """Run the service as the unit says: its command, environment, user and folders; end it by SIGTERM."""
    lines = (root.folder / "usr/lib/systemd/system/edgemeta.service").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    environment = dict(word.split("=", 1) for word in settings["Environment"].split())
    for folder in ("/var/lib", "/var/cache"):
        assert root.run("install", "-d", "-m700", "-oedgemeta", "-gedgemeta", f"{folder}/edgemeta")[0] == 0
    variables = {**environment, "STATE_DIRECTORY": "/var/lib/edgemeta"}
    command = root.command(*settings["ExecStart"].split(), network=True, user=settings["User"], **variables)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield
        # The first process of its own process namespace, whose parent is unshare.
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        subprocess.run(["kill", f"-{signal.SIGTERM.value}", child], check=True)
        _, log = process.communicate(timeout=120)
        assert process.returncode == 0, log
        assert log.endswith("stopped\n"), log
    finally:
        process.kill()
        process.wait()


def received(port: int, number: int) -> list[dict[str, int]]:
    """Wait for so many frame messages."""
    wanted = ["-t", "edgemeta/+/front/frame", "-C", str(number), "-W", f"{DEADLINE:g}"]
    command = ["mosquitto_sub", "-p", str(port), *wanted]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def newer(deb: Path, version: str, folder: Path, more_config: str = "") -> Path:
    """Make the same package of another version, with something added to its config."""
    content = folder / version
    subprocess.run(["dpkg-deb", "--raw-extract", str(deb), str(content)], check=True)
    control = content / "DEBIAN/control"
    control.write_text(control.read_text().replace(f"\nVersion: {__version__}\n", f"\nVersion: {version}\n"))
    config = content / "etc/edgemeta/config.yaml"
    config.write_text(config.read_text() + more_config)
    built = folder / f"edgemeta_{version}.deb"
    build = ["dpkg-deb", "-Zzstd", "-z1", "--build", str(content), str(built)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(content)
    return built
