"""Figures and digests in the documents are those of the result files and of the shipped models."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text("utf-8")


@pytest.fixture(scope="session")
def shipped(repository: Path) -> dict[str, str]:
    """SHA-256 of every shipped model file, by its name."""
    files = (repository / "model" / "zoo").glob("*.safetensors")
    return {file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def on_one_line(text: str) -> str:
    """Without the line breaks that wrapping put in."""
    return " ".join(text.split())


def result(repository: Path, name: str) -> Any:
    return json.loads((repository / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def named(value: Any, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object that has a digest, with the model's name: in it, or the key that it is under."""
    if isinstance(value, dict):
        name = value.get("model", value.get("name", key))
        if isinstance(name, str) and "sha256" in value:
            yield name, value
        for under, each in value.items():
            yield from named(each, under)
    elif isinstance(value, list):
        for each in value:
            yield from named(each)


def test_a_result_names_the_shipped_file_or_says_that_it_is_of_an_older_one(
    repository: Path, shipped: dict[str, str]
) -> None:
    files = sorted((repository / "benchmarks" / "results").glob("*.json"))
    found = [(file.name, *each) for file in files for each in named(json.loads(file.read_text("utf-8")))]
    assert len(found) >= 8
    wrong = [
        f'{file}: {name}: {entry["sha256"]} is not the shipped file: measure again, or say "older_file": true beside it'
        for file, name, entry in found
        if name in shipped and (entry["sha256"] != shipped[name]) != entry.get("older_file", False)
    ]
    assert wrong == []


def test_a_message_in_the_documents_names_the_shipped_file(repository: Path, shipped: dict[str, str]) -> None:
    documents = [repository / "README.md", *(repository / "docs").rglob("*.md")]
    pairs = [
        (document.name, *pair)
        for document in documents
        for pair in re.findall(r'"name": "([^"]+)", "sha256": "([0-9a-f]{64})"', document.read_text("utf-8"))
    ]
    assert pairs
    assert [pair for pair in pairs if pair[1] in shipped and pair[2] != shipped[pair[1]]] == []


def test_speed_in_the_readme(repository: Path, readme: str) -> None:
    rows = {row["runtime"]: row for row in result(repository, "peers")["rows"]}
    readme = on_one_line(readme)
    own, other = rows["edgemeta avx512vnni"], rows["LiteRT int8"]
    assert f"ResNet-8 takes {own['median_us']} µs on one thread" in readme
    assert f"and {own['paced_median_us']} µs with 10 ms of sleep" in readme
    paced = own["paced_median_us"] / other["paced_median_us"]
    assert f"{own['times_litert']:.2f} and {paced:.2f} of LiteRT's time" in readme


def test_accuracy_of_the_shipped_classification(repository: Path) -> None:
    text = (repository / "docs" / "quantization.md").read_text("utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith("| ResNet-8, shipped: top-1 "))
    networks = result(repository, "accuracy")["networks"]
    names = ("resnet8-cifar10-float", "resnet8-cifar10", "resnet8-cifar10-paper")
    assert re.findall(r"\d+\.\d+", row.partition("%")[2])[:3] == [f"{networks[name]['top1']:.2f}" for name in names]


def test_cuda_figures(repository: Path, readme: str) -> None:
    cost = result(repository, "cuda-cost")
    own, paper = cost["predicted_us"], cost["paper_design"]["predicted_us"]
    share = cost["warp_instructions"] / cost["paper_design"]["warp_instructions"]
    assert f"{share:.3f} of the instructions of the paper's design" in on_one_line(readme)
    assert f"predicts {own['busy']:.0f} µs of busy time" in on_one_line(readme)
    document = on_one_line((repository / "docs" / "kernels.md").read_text("utf-8"))
    assert (
        f"The prediction for ResNet-8 is {own['busy']:.0f} µs busy; "
        f"with eight separate launches {own['plain']:.0f} µs, as a graph {own['graph']:.0f} µs. "
        f"The paper's design: {paper['busy']:.0f}, {paper['plain']:.0f} and {paper['graph']:.0f} µs."
    ) in document


def test_recognition_in_the_demos_page(repository: Path) -> None:
    scenes = result(repository, "demo-recognition")["scenes"].values()
    document = on_one_line((repository / "docs" / "demo.md").read_text("utf-8"))
    assert {scene["frames"] for scene in scenes} == {600}
    assert f"at least {min(scene['right'] for scene in scenes)} of 600 frames of every class" in document
    assert f"{sum(scene['right'] for scene in scenes)} of {600 * len(scenes)} in all" in document
