"""`make test` leaves costly proofs out only where git says that nothing they prove differs from main."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unchanged import PROOFS, is_unchanged


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *identity, *arguments], cwd=folder, env=environment, capture_output=True, check=True)


def write(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"{(folder / name).exists()}\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """On a branch beside main, with one commit that is none of the proofs' sources."""
    git(tmp_path, "init", "-q", "-b", "main")
    write(tmp_path, "kernels/a.cu")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    git(tmp_path, "switch", "-q", "-c", "work")
    write(tmp_path, "docs/page.md")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "second")
    return tmp_path


def test_other_changes_leave_proofs_out(checkout: Path) -> None:
    write(checkout, "kernelspace.py")
    assert is_unchanged(checkout)


@pytest.mark.parametrize("name", ["kernels/a.cu", "model/new.py", "tests/parts.py"])
@pytest.mark.parametrize("state", ["new or changed", "staged", "committed"])
def test_a_change_of_what_they_prove_counts_committed_or_not(checkout: Path, name: str, state: str) -> None:
    write(checkout, name)
    if state != "new or changed":
        git(checkout, "add", ".")
    if state == "committed":
        git(checkout, "commit", "-q", "-m", "third")
    assert not is_unchanged(checkout)


def test_what_main_got_meanwhile_does_not_count(checkout: Path) -> None:
    git(checkout, "switch", "-q", "main")
    write(checkout, "kernels/a.cu")
    git(checkout, "commit", "-q", "-a", "-m", "on main")
    git(checkout, "switch", "-q", "work")
    assert is_unchanged(checkout)


def test_where_git_cannot_tell_nothing_is_left_out(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert not is_unchanged(tmp_path_factory.mktemp("unpacked"))
    assert not is_unchanged(checkout / "docs"), "a source unpacked in another project"
    git(checkout, "branch", "-q", "-D", "main")
    assert not is_unchanged(checkout)


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "--numprocesses", "1"]])
@pytest.mark.parametrize("full", ["0", "1"])
def test_a_run_leaves_proofs_out_and_says_so(tmp_path: Path, full: str, workers: list[str]) -> None:
    for folder in ("proofs", "others"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text("def test_it(): pass\n")
    (tmp_path / "asked.py").write_text(
        "from pathlib import Path\nfrom tests import unchanged\nunchanged.is_unchanged = lambda folder: True\n"
        "unchanged.REPOSITORY, unchanged.PROOFS = Path.cwd(), ('proofs',)\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "asked", "-p", "tests.unchanged", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *workers, "--leave-out-unchanged", "."],
        cwd=tmp_path,
        env=os.environ | {"EDGEMETA_FULL": full, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("proofs (EDGEMETA_FULL=1 runs them)" in done.stdout) == (full == "0")
    assert ("1 passed" if full == "0" else "2 passed") in done.stdout


def test_proofs_are_folders(repository: Path) -> None:
    assert [each for each in PROOFS if not (repository / each).is_dir()] in ([], ["tests/proof"])
