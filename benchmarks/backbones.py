"""Backbones for `edgemeta teach`: few pictures per class of a folder, measured on another folder.

    python benchmarks/backbones.py --data clothing/train --test clothing/validation --backbone resnet8-cifar10 ...

For each seed, 20 pictures of each class are drawn from the data folder and taught by the function of the command; the
int8 model is measured on all pictures of the test folder. The time of a frame is that of the backbone alone, on one
core, backbones in turns. Prints a table, and writes results/backbones.json and results/backbones.md.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.cli.options import load_model
from edgemeta.model.graph import Model
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.data.class_folders import list_class_folders
from edgemeta.toolchain.data.picture_files import read_pictures
from edgemeta.toolchain.teach.teach import Settings, teach

ROUNDS = 300


def main() -> None:
    """Teach, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of pictures per class, to learn from")
    parser.add_argument("--test", type=Path, required=True, help="folder of pictures per class, only measured")
    parser.add_argument("--backbone", action="append", required=True, help="model file or shipped name; repeatable")
    parser.add_argument("--per-class", type=int, default=20, help="pictures per class")
    parser.add_argument("--seeds", type=int, default=3, help="draws of pictures")
    chosen = parser.parse_args()
    models = {Path(name).stem: load_model(name) for name in chosen.backbone}
    times = frame_times(models)
    results = {}
    for name, model in models.items():
        runs = [taught(model, chosen.data, chosen.test, chosen.per_class, seed) for seed in range(chosen.seeds)]
        print(name, runs, flush=True)
        results[name] = {"test_percent": runs, "mean": float(np.mean(runs)), "microseconds": round(times[name] * 1e6)}
    rows = ["| backbone | input | mean % | of each draw | backbone, us |", "|---|---|---|---|---|"]
    for name, model in models.items():
        found, side = results[name], model.input.shape[0]
        draws = ", ".join(f"{percent:.1f}" for percent in runs_of(found))
        mean = f"{found['mean']:.1f}"
        rows.append(f"| `{name}` | {side}x{side} | {mean} | {draws} | {found['microseconds']} |")
    table = "\n".join(rows)
    print(table)
    named = " ".join(f"--backbone {name}" for name in models)
    command = f"python benchmarks/backbones.py --data {tail(chosen.data)} --test {tail(chosen.test)} {named}"
    command += f" --seeds {chosen.seeds}"
    write_json("backbones", command, {"per_class": chosen.per_class, "backbones": results})
    write_markdown("backbones", command, f"{chosen.per_class} pictures per class, test folder, int8.\n\n{table}")


def tail(path: Path) -> str:
    """The last two parts of a path."""
    return "/".join(path.parts[-2:])


def runs_of(found: dict[str, object]) -> Sequence[float]:
    """The percentages of a backbone's draws."""
    percents = found["test_percent"]
    assert isinstance(percents, list)
    return percents


def taught(backbone: Model, data: Path, test: Path, per_class: int, seed: int) -> float:
    """Percent of the test pictures that a model, taught by a draw of pictures, names rightly."""
    files, rng = list_class_folders(data, print), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        for number, label in enumerate(files.labels):
            (Path(folder) / label).mkdir()
            for i in rng.permutation(np.flatnonzero(files.y == number))[:per_class]:
                (Path(folder) / files.names[i]).symlink_to(files.file(int(i)).resolve())
        model = teach(Path(folder), backbone, Settings(name="taught"), print, lambda *_: None).model
    return percent_right(model, test)


def percent_right(model: Model, folder: Path) -> float:
    """Percent of a folder's pictures that the integer model names rightly, by its own preprocessing."""
    files = list_class_folders(folder, print)
    right = 0
    with closing(choose("cpu").compile(model, {})) as session:
        for number, pixels in read_pictures(files, print):
            logits = session.run(make_preprocessor(model, pixels.shape)(pixels))[0].reshape(-1)
            right += model.task.labels[int(logits.argmax())] == files.labels[files.y[number]]
    return 100 * right / len(files)


def frame_times(models: dict[str, Model]) -> dict[str, float]:
    """Least seconds of each network for one image on the `cpu` backend, all in turns."""
    best = dict.fromkeys(models, float("inf"))
    with ExitStack() as opened:
        sessions = {n: opened.enter_context(closing(choose("cpu").compile(m, {}))) for n, m in models.items()}
        images = {n: np.zeros((1, *m.input.shape), np.int8) for n, m in models.items()}
        for _ in range(ROUNDS):
            for name, session in sessions.items():
                begin = time.perf_counter()
                session.run(images[name])
                best[name] = min(best[name], time.perf_counter() - begin)
    return best


if __name__ == "__main__":
    main()
