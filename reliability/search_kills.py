"""kill -9 of workers of a search, and of its database's server: no trial may be lost, none may count twice.

    python reliability/search_kills.py --keep               writes benchmarks/results/search-kills.json

Three workers search the bits of a small network, half of the time with a journal file, half of the time with a
PostgreSQL server of Debian. Each round the study is to have 12 trials more. At a random moment one or two of the
workers are killed, or the server with all of its processes, which is then started again; the other workers go on, and
if none is left one more is started. After each round every choice that was begun must have exactly one trial that
counts, and the study exactly the trials it was to have.
"""

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json
from edgemeta.toolchain.search.ledger import KEY, SURPLUS, is_done
from edgemeta.toolchain.search.run import search
from edgemeta.toolchain.search.storage import open_storage
from rig.database import Database
from rig.small_search import small_config, write_small_search

WORKERS = 3
ROUND = 12
LEASE = 1.5
"""Seconds."""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["reliability.search_kills", "optuna", "optuna.storages", "sqlalchemy", "psycopg"])
_LONGEST = 300


@dataclass(frozen=True)
class Kill:
    """What became of a round. killed: "worker", "2 workers" or "server". trials: that count, of `wanted`.

    lost: choices that were begun and have no result. twice: trials that count beside another one of the same choice.
    given_again: trials whose choice had been given to a killed worker.
    """

    storage: str
    killed: str
    wanted: int
    trials: int
    lost: int
    twice: int
    given_again: int


def main() -> None:
    """Kill, check, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/search-kills.json")
    arguments = parser.parse_args()
    half = arguments.kills // 2
    with tempfile.TemporaryDirectory() as folder, Database() as database:
        write_small_search(Path(folder))
        kills = killed(Path(folder), arguments.kills - half, arguments.seed, None)
        kills += killed(Path(folder), half, arguments.seed, database)
    values = {
        "kills": len(kills),
        "trials": sum(ROUND for _ in kills),
        "given_again": sum(kill.given_again for kill in kills),
        "lost": sum(kill.lost for kill in kills),
        "twice": sum(kill.twice for kill in kills),
        "other_numbers": sum(kill.trials != kill.wanted for kill in kills),
    }
    print(json.dumps(values))
    if arguments.keep:
        command = f"python reliability/search_kills.py --kills {arguments.kills} --seed {arguments.seed} --keep"
        write_json("search-kills", command, {**values, "runs": [asdict(kill) for kill in kills]})
    if values["lost"] or values["twice"] or values["other_numbers"]:
        sys.exit("trials were lost, or counted twice")


def killed(folder: Path, kills: int, seed: int, database: Database | None) -> list[Kill]:
    """So many rounds on a database or, without one, on a journal; prints each."""
    chance, done = random.Random(seed), list[Kill]()
    where = str(folder / "trials.journal") if database is None else database.url
    open_storage(where)  # makes the tables of a new database
    before = 0
    for number in range(1, kills + 1):
        kill = one_round(folder, where, number * ROUND, chance, database, before)
        before += kill.given_again
        done.append(kill)
        print(json.dumps(asdict(kill)), flush=True)
    return done


def one_round(
    folder: Path, where: str, wanted: int, chance: random.Random, database: Database | None, before: int
) -> Kill:
    """Start workers, kill, and wait until the study has its trials. before: trials given again in earlier rounds."""
    workers = [started(folder, where, wanted) for _ in range(WORKERS)]
    moment = wanted - ROUND + chance.randrange(ROUND - WORKERS)
    while counted(where) < moment and any(worker.is_alive() for worker in workers):
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 0.1))
    if database is not None and chance.random() < 0.5:
        what = "server"
        database.kill()
        time.sleep(chance.uniform(0, 1))
        database.start()
    else:
        victims = chance.sample(workers, chance.randint(1, 2))
        what = "worker" if len(victims) == 1 else f"{len(victims)} workers"
        for victim in victims:
            victim.kill()
    for worker in workers:
        worker.join(_LONGEST)
    last = started(folder, where, wanted)
    last.join(_LONGEST)
    if last.exitcode != 0:
        raise RuntimeError(f"{where}: a worker ended with status {last.exitcode}")
    trials = [trial for trial in open_trials(where) if not trial.user_attrs.get(SURPLUS)]
    results = Counter(trial.user_attrs[KEY] for trial in trials if is_done(trial))
    # The study consists of the first `wanted` choices. A worker that is killed before it gives up a later one leaves
    # that behind, for a study of more trials.
    choices = list(dict.fromkeys(trial.user_attrs[KEY] for trial in trials))[:wanted]
    begun = Counter(trial.user_attrs[KEY] for trial in trials if trial.user_attrs[KEY] in choices)
    again = sum(begun.values()) - len(begun) - before
    kind = "journal" if database is None else "postgresql"
    lost, twice = len(set(begun) - set(results)), sum(results.values()) - len(results)
    return Kill(kind, what, wanted, len(results), lost, twice, again)


def started(folder: Path, where: str, trials: int) -> BaseProcess:
    """Start a worker."""
    process = _FORKS.Process(target=work, args=(folder, where, trials))
    process.start()
    return process


def work(folder: Path, where: str, trials: int) -> None:
    """Search until the study has so many trials."""
    search(small_config(folder, storage=where, trials=trials, lease=LEASE, seeds=10), folder)


def counted(where: str) -> int:
    """Trials with a result."""
    return sum(is_done(trial) for trial in open_trials(where))


def open_trials(where: str) -> list[Any]:
    """All trials of the study; none before it is there."""
    storage = open_storage(where)
    try:
        return storage.get_all_trials(storage.get_study_id_from_name("small"), deepcopy=False)
    except KeyError:
        return []


if __name__ == "__main__":
    main()
