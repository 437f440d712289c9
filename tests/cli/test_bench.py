"""`edgemeta bench`: latencies of models and of products of matrices."""

import pytest

SHIPPED = "resnet8-cifar10"


def test_bench_prints_latencies_and_stages(edgemeta_json) -> None:
    result = edgemeta_json("bench", SHIPPED, "--backend", "cpu", "--runs", 50)
    assert 0 < result["min_us"] <= result["median_us"] <= result["p99_us"]
    assert result["stages"]
    assert all(microseconds >= 0 for microseconds in result["stages"].values())
    assert result["forms"]
    assert set(result["forms"]) <= set(result["stages"])


def test_paced_bench_waits_between_runs(edgemeta_json) -> None:
    assert edgemeta_json("bench", SHIPPED, "--backend", "cpu", "--runs", 5, "--paced", 5)["median_us"] > 0


def test_unknown_backend_and_instruction_set_are_named(edgemeta, one_sentence) -> None:
    one_sentence(edgemeta("bench", SHIPPED, "--backend", "cpi"), "cpi", "cpu")
    one_sentence(edgemeta("bench", SHIPPED, "--backend", "cpu", "--isa", "sse9"), "sse9", "portable")


def test_the_reference_backend_refuses_an_instruction_set(edgemeta, one_sentence) -> None:
    one_sentence(edgemeta("bench", SHIPPED, "--backend", "reference", "--isa", "avx2"), "isa")


@pytest.mark.parametrize(("bits", "kib"), [("1,1", 2), ("3,4", 6), ("7,8", 14), ("8,8", 32)])
def test_gemm_counts_its_stages_apart(edgemeta_json, bits: str, kib: int) -> None:
    result = edgemeta_json("bench", "--gemm", "256x64x256", "--bits", bits, "--runs", 3, "--isa", "portable")
    assert all(result[f"{stage}_us"] > 0 for stage in ("quantize", "gemm", "dequantize"))
    assert (result["bytes"], result["isa"]) == (kib * 1024, "portable")
    assert 0 < result["gemm_min_us"] <= result["gemm_us"]


def test_gemm_runs_another_form(edgemeta_json) -> None:
    shape = ("--gemm", "16x32x64", "--runs", 2, "--isa", "portable")
    assert edgemeta_json("bench", *shape, "--bits", "2,2", "--form", "packed")["form"].startswith("packed: 2-bit")
    assert edgemeta_json("bench", *shape, "--bits", "2,2", "--form", "plain")["form"].startswith("plain: int16")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "either a MODEL or --gemm"),
        ((SHIPPED, "--gemm", "1x1x1"), "either a MODEL or --gemm"),
        (("--gemm", "1x2"), "--gemm 1x2: expected MxNxK"),
        (("--gemm", "99999x99999x1"), "at most 67,108,864 elements"),
        (("--gemm", "1x1x1", "--bits", "9,1"), "--bits 9,1: expected W,A"),
        (("--gemm", "1x1x1", "--backend", "reference"), "runs on the cpu backend"),
        (("--gemm", "1x1x1", "--save", "x.json"), "--layers and --save are for a MODEL"),
        (("--gemm", "1x1x1", "--isa", "sse9"), "sse9"),
        ((SHIPPED, "--bits", "2,2"), "for bench --gemm"),
    ],
)
def test_what_bench_refuses(edgemeta, one_sentence, arguments: tuple[str, ...], named: str) -> None:
    one_sentence(edgemeta("bench", *arguments), named)


def test_layers_have_every_form_predicted_and_measured(edgemeta_json, edgemeta, tmp_path) -> None:
    file = tmp_path / "forms.json"
    portable = ("--backend", "cpu", "--isa", "portable", "--runs", 2)
    layers = edgemeta_json("bench", SHIPPED, *portable, "--layers", "--save", file)["layers"]
    assert {each["form"] for each in layers} == {"plain"}
    assert all(each["predicted_of_plain"]["plain"] == 1 for each in layers)
    assert all(each["measured_us"]["plain"] > 0 for each in layers)
    assert sum(each["floor_us"]["plain"] for each in layers) > 0
    assert all(each["reading_us"]["plain"] > 0 for each in layers)
    assert sum(each["multiply_adds"] for each in layers) > 12_501_632  # of MLPerf Tiny's, and three more outputs
    assert file.exists()
    table = edgemeta("bench", SHIPPED, *portable, "--layers").stdout
    assert table.count("in use") == len(layers)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--save", "x.json"), "--save is for bench --layers"),
        (("--layers", "--backend", "reference", "--runs", 1), "backend reference has no forms"),
        (
            ("--layers", "--backend", "cpu", "--runs", 1, "--save", "/proc/none/x.json"),
            "/proc/none/x.json: cannot be written",
        ),
    ],
)
def test_what_bench_layers_refuses(edgemeta, one_sentence, arguments: tuple[object, ...], named: str) -> None:
    one_sentence(edgemeta("bench", SHIPPED, *arguments), named)
