"""The Docker files name what is there and keep to the rules; with a Docker daemon, the image is built and runs."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from edgemeta.daemon.service.plan import prepare

FILES = ("Dockerfile", "Dockerfile.l4t")


def instructions(path: Path) -> Iterator[tuple[str, str]]:
    """Give every instruction of a Dockerfile, with its lines joined."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(str.strip, text.splitlines()):
        word, _, rest = line.partition(" ")
        yield word, rest.strip()


@pytest.fixture(params=FILES)
def dockerfile(repository: Path, request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    return list(instructions(repository / "docker" / request.param))


def last(dockerfile: list[tuple[str, str]], word: str) -> str:
    return [rest for instruction, rest in dockerfile if instruction == word][-1]


def test_what_is_copied_is_in_the_checkout_and_not_ignored(repository: Path, dockerfile: list[tuple[str, str]]) -> None:
    lines = (repository / ".dockerignore").read_text().splitlines()
    ignored = [line.removeprefix("**/") for line in lines if line and not line.startswith("#")]
    stages = {rest.split(" AS ")[1] for word, rest in dockerfile if word == "FROM" and " AS " in rest}
    for rest in (rest for word, rest in dockerfile if word == "COPY"):
        source = rest.split()[-2]
        if found := re.match(r"--from=(\S+)", rest):
            assert found[1] in stages
        else:
            assert (repository / source).exists()
            assert not any(fnmatch(part, pattern) for part in Path(source).parts for pattern in ignored)


def test_what_a_build_needs_is_not_ignored(repository: Path) -> None:
    """All that `pip install .` reads: the folders that the package links to, and what pyproject.toml names."""
    ignored = (repository / ".dockerignore").read_text().splitlines()
    linked = [path.resolve().name for path in (repository / "src/edgemeta").iterdir() if path.is_symlink()]
    assert "daemon" in linked
    for name in [*linked, "src", "pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"]:
        assert not any(fnmatch(name, pattern) for pattern in ignored), name


def test_every_image_has_a_version(dockerfile: list[tuple[str, str]]) -> None:
    arguments = dict(rest.split("=", 1) for word, rest in dockerfile if word == "ARG")
    for rest in (rest for word, rest in dockerfile if word == "FROM"):
        image = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], rest.split()[0])
        assert re.search(r":[\w.-]+$", image), image
        assert not image.endswith(":latest")


def test_what_apt_brings_is_only_what_was_asked_for(dockerfile: list[tuple[str, str]]) -> None:
    for rest in (rest for word, rest in dockerfile if word == "RUN" and "apt-get install" in rest):
        assert "--no-install-recommends" in rest
        assert "rm -rf /var/lib/apt/lists/*" in rest


def test_it_runs_as_a_user_of_its_own_that_can_write_its_folders_only(dockerfile: list[tuple[str, str]]) -> None:
    user = last(dockerfile, "USER")
    assert user == "edgemeta"
    (made,) = [rest for word, rest in dockerfile if word == "RUN" and "useradd" in rest]
    for folder in last(dockerfile, "VOLUME").split():
        assert re.search(rf"--owner={user} [^&]*{folder}\b", made), folder
        assert f"={folder}" in last(dockerfile, "ENV"), "the service is told of it"


def test_signals_reach_the_service_and_its_command_line_is_right(dockerfile: list[tuple[str, str]]) -> None:
    """The exec form: no shell stands between Docker's SIGTERM and the service."""
    assert json.loads(last(dockerfile, "ENTRYPOINT")) == ["edgemeta"]
    verb, config = json.loads(last(dockerfile, "CMD"))
    assert verb == "run"
    assert config in [rest.split()[-1] for word, rest in dockerfile if word == "COPY"]


def test_the_health_check_asks_what_the_images_config_serves(
    repository: Path, dockerfile: list[tuple[str, str]]
) -> None:
    plan = prepare(repository / "docker/config.yaml")
    web = plan.config.web
    assert web.enabled
    _, _, command = last(dockerfile, "HEALTHCHECK").partition(" CMD ")
    _, option, program = json.loads(command)
    assert option == "-c"
    compile(program, "HEALTHCHECK", "exec")
    assert f"'http://{web.host}:{web.port}/healthz'" in program


def test_the_compose_file_mounts_what_is_there(repository: Path) -> None:
    folder = repository / "docker"
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    mounted = [volume.split(":") for service in services.values() for volume in service["volumes"]]
    files = [source for source, *_ in mounted if source.startswith(".")]
    assert files
    assert all((folder / source).is_file() for source in files)
    build = services["edgemeta"]["build"]
    assert (folder / build["context"] / build["dockerfile"]).is_file()
    # The image's config names the broker by its service.
    assert yaml.safe_load((folder / "config.yaml").read_text())["mqtt"]["host"] in services


@pytest.fixture
def docker() -> str:
    program = shutil.which("docker")
    if program is None or subprocess.run([program, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker daemon runs here")
    return program


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_image_is_built_and_becomes_healthy(repository: Path, docker: str) -> None:
    command = [docker, "build", "--quiet", "--file", str(repository / "docker/Dockerfile"), str(repository)]
    image = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    started = [docker, "run", "--detach", "--read-only", "--cap-drop=ALL", "--health-interval=2s", image]
    container = subprocess.run(started, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    try:
        inspect = [docker, "inspect", "--format", "{{.State.Health.Status}}", container]
        deadline = time.monotonic() + 120
        while (status := subprocess.run(inspect, check=True, stdout=subprocess.PIPE, text=True).stdout) != "healthy\n":
            assert time.monotonic() < deadline, status
            time.sleep(0.5)
        subprocess.run([docker, "stop", container], check=True, stdout=subprocess.DEVNULL)
        inspect[3] = "{{.State.ExitCode}}"
        assert subprocess.run(inspect, check=True, stdout=subprocess.PIPE, text=True).stdout == "0\n"
    finally:
        subprocess.run([docker, "rm", "--force", container], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([docker, "rmi", image], check=False, stdout=subprocess.DEVNULL)
