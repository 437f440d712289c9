"""Wheels of several Pythons in one folder, by the real pip, from tiny wheels and without a network."""

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate("8 s: pip is started once for each Python and folder")

PYTHONS = ["3.10", "3.11"]


def make_wheel(folder: Path, name: str, tag: str, files: dict[str, str], requires: str = "") -> Path:
    """Write a wheel of version 1.0."""
    info = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-{tag}.whl"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in content.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in [*content, f"{info}/RECORD"]))
    return path


@pytest.fixture(scope="module")
def wheels(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that pip takes wheels from, and no other: `whole` needs `parts`, which each Python has for itself."""
    folder = tmp_path_factory.mktemp("wheels")
    script = {"whole-1.0.dist-info/entry_points.txt": "[console_scripts]\nwhole = whole:main\n"}
    make_wheel(folder, "whole", "py3-none-any", {"whole.py": "", **script}, "parts")
    for python in PYTHONS:
        cp = f"cp{python.replace('.', '')}"
        files = {"parts/same.py": "same = 1\n", "parts/own.so": python, "parts/__pycache__/same.pyc": "old"}
        make_wheel(folder, "parts", f"{cp}-{cp}-manylinux_2_28_aarch64", files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder))
        patch.setenv("PIP_CONFIG_FILE", "/dev/null")
        patch.syspath_prepend(str(repository / "packaging"))
        yield folder


@pytest.fixture(scope="module")
def lock(wheels: Path) -> Path:
    """A lock of `parts` and, for a Python that is not bundled, of what nobody has."""
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(wheels.glob("parts-*.whl"))]
    entry = ["parts==1.0", *(f"    --hash=sha256:{each}" for each in digests)]
    path = wheels / "lock.txt"
    path.write_text(" \\\n".join(entry) + "\nnowhere==2.0 ; python_full_version >= '3.13' \\\n    --hash=sha256:00\n")
    return path


@pytest.fixture(scope="module")
def bundled(wheels: Path, lock: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from bundle import bundle

    into = tmp_path_factory.mktemp("made") / "bundle"
    bundle(wheels / "whole-1.0-py3-none-any.whl", lock.read_text(), PYTHONS, "aarch64", into)
    return into


def test_each_python_finds_its_own_and_what_all_share(bundled: Path) -> None:
    files = {str(path.relative_to(bundled)) for path in bundled.rglob("*") if path.is_file()}
    own = {f"python{python}/parts/{name}" for python in PYTHONS for name in ("same.py", "own.so")}
    assert {name for name in files if ".dist-info" not in name} == {"WHEELS", "packages/whole.py"} | own
    assert [(bundled / f"python{python}/parts/own.so").read_text() for python in PYTHONS] == PYTHONS


def test_equal_files_are_one_and_different_ones_are_not(bundled: Path) -> None:
    one, other = (bundled / f"python{python}/parts" for python in PYTHONS)
    assert (one / "same.py").samefile(other / "same.py")
    assert not (one / "own.so").samefile(other / "own.so")


def test_its_list_names_every_wheel_with_its_digest(wheels: Path, bundled: Path) -> None:
    listed = dict(line.split("  ")[::-1] for line in (bundled / "WHEELS").read_text().splitlines())
    assert listed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels.glob("*.whl")}


def test_it_knows_nothing_of_the_machine_that_made_it(wheels: Path, bundled: Path) -> None:
    texts = [path.read_bytes() for path in bundled.rglob("*") if path.is_file()]
    assert not [text for text in texts if str(wheels).encode() in text or str(bundled).encode() in text]


@pytest.mark.parametrize(
    ("pythons", "machine"), [(["3.10", "3.12"], "aarch64"), (["3.10"], "x86_64")], ids=["python", "machine"]
)
def test_a_wheel_that_is_missing_stops_it_in_one_sentence(
    wheels: Path, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pythons: list[str], machine: str
) -> None:
    from bundle import main

    whole = str(wheels / "whole-1.0-py3-none-any.whl")
    words = ["bundle", whole, "--lock", str(lock), "--machine", machine, "--into", str(tmp_path / "bundle")]
    monkeypatch.setattr(sys, "argv", [*words, "--pythons", *pythons])
    with pytest.raises(SystemExit, match=r"^bundle: .*pip download .*parts"):
        main()
    assert not (tmp_path / "bundle").exists()


def test_a_wheel_for_a_newer_glibc_than_the_package_asks_for_is_refused(wheels: Path, tmp_path: Path) -> None:
    from bundle import BundleError, bundle

    newer = make_wheel(tmp_path, "newer", "py3-none-manylinux_2_36_aarch64", {"newer.py": ""})
    with pytest.raises(BundleError, match="not a supported wheel"):
        bundle(newer, "", ["3.10"], "aarch64", tmp_path / "bundle")


def test_a_wheel_that_is_not_the_locked_one_is_refused(wheels: Path, tmp_path: Path) -> None:
    from bundle import BundleError, bundle

    lock = f"parts==1.0 \\\n    --hash=sha256:{'0' * 64}\n"
    with pytest.raises(BundleError, match="pip download failed"):
        bundle(wheels / "whole-1.0-py3-none-any.whl", lock, PYTHONS[:1], "aarch64", tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_its_bill_of_materials_has_every_wheel(bundled: Path) -> None:
    pytest.importorskip("cyclonedx", reason="cyclonedx is not installed: pip install edgemeta[test]")
    import sbom

    sbom.NAME = "whole"
    bill = json.loads(sbom.text_of(bundled))
    listed = [bill["metadata"]["component"], *bill["components"]]
    digests = {each["bom-ref"]: each["hashes"][0]["content"] for each in listed}
    assert digests == {line[66:]: line[:64] for line in (bundled / "WHEELS").read_text().splitlines()}
    assert sbom.text_of(bundled) == sbom.text_of(bundled)
