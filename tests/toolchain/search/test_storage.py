"""The journal: whole lines only, a lock that ends with its process, and one sentence for what cannot be opened."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from optuna.exceptions import StorageInternalError

from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.storage import JournalLock, Patient, open_storage, whole_lines, without_password


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"one\n", b"one\n"),
        (b"one\ntw", b"one\n"),
        (b"half", b""),
        (b"one\n" + b"x" * 10000, b"one\n"),
        (b"x" * 9000 + b"\n" + b"y" * 5000, b"x" * 9000 + b"\n"),
    ],
)
def test_a_line_without_an_end_is_cut_off(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(before)
    whole_lines(path)
    assert path.read_bytes() == after


def test_a_journal_with_half_a_line_is_read_and_goes_on(tmp_path: Path) -> None:
    from optuna.study import StudyDirection

    path = tmp_path / "journal"
    storage = open_storage(str(path))
    study = storage.create_new_study([StudyDirection.MINIMIZE], "one")
    storage.set_study_user_attr(study, "a", 1)
    with path.open("ab") as file:
        file.write(b'{"op_code": 2, "worker_id": "kil')
    other = open_storage(str(path))
    assert other.get_study_user_attrs(study) == {"a": 1}
    other.set_study_user_attr(study, "b", 2)
    storage.set_study_user_attr(study, "c", 3)
    assert open_storage(str(path)).get_study_user_attrs(study) == {"a": 1, "b": 2, "c": 3}
    for line in path.read_text().splitlines():
        json.loads(line)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    program = (
        "import sys, time; from pathlib import Path\n"
        "from edgemeta.toolchain.search.storage import JournalLock\n"
        f"JournalLock(Path({str(journal)!r})).acquire(); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    lock = JournalLock(journal)
    assert lock.acquire()
    lock.release()


class Away:
    """A storage whose server is away for some calls."""

    answer = 7

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def get(self, what: str) -> str:
        self.calls -= 1
        if self.calls >= 0:
            raise StorageInternalError("the server closed the connection\nunexpectedly")
        return what


def test_calls_are_repeated_while_the_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemeta.toolchain.search.storage._PAUSE", 0.0)
    patient = Patient(Away(3), 60)  # type: ignore[arg-type]
    assert patient.get("x") == "x"
    assert patient.answer == 7
    with pytest.raises(SearchError, match="cannot be reached: the server closed the connection unexpectedly"):
        Patient(Away(10**9), 0.0).get("x")  # type: ignore[arg-type]


def test_what_cannot_be_opened_is_one_sentence_without_the_password(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SearchError, match="the journal cannot be written"):
        open_storage(str(tmp_path / "file" / "journal"))
    with pytest.raises(SearchError) as error:
        open_storage("nosuchdatabase://me:secret@host/trials")
    assert "secret" not in str(error.value)
    assert without_password("postgresql+psycopg://me:secret@host/x") == "postgresql+psycopg://me@host/x"
    assert without_password("sqlite:///x.db") == "sqlite:///x.db"
