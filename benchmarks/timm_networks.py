"""How many backbones of timm come in: exported to ONNX with random weights, imported, quantized, run.

    python benchmarks/timm_networks.py FOLDER [--exporter PYTHON] [--only NAME...] [--keep]

FOLDER keeps the exported files, about 1.3 GB. --exporter is a Python that has timm, PyTorch and onnx (timm_export.py);
default this one. Each network is imported as `edgemeta import FILE --std 255` does, which compares it with ONNX Runtime
on two images; quantized with ranges of four drawn scenes; and run on one more on the cpu backend, whose integers are
compared with the reference's. Random weights say nothing of accuracy.
--keep writes results/timm-networks.{json,md}. Exits with 1 where fewer than 48 are read, equal and the same.
"""

import argparse
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model import reference
from edgemeta.model.graph import FloatModel, Model
from edgemeta.plugins.api import BackendError
from edgemeta.plugins.drawn.crowd import CrowdedScenes
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.errors import ToolchainError
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.auto import Prepared
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice

NAMES = (
    *("resnet18", "resnet50", "resnext50_32x4d", "regnetx_002", "regnety_004", "densenet121", "efficientnet_b0"),
    *("tf_efficientnetv2_b0", "efficientnet_lite0", "mobilenetv1_100", "mobilenetv2_100", "mobilenetv3_large_100"),
    *("mobilenetv4_conv_small", "mobilenetv4_hybrid_medium", "mnasnet_100", "ghostnet_100", "repvgg_a0", "tinynet_a"),
    *("hardcorenas_a", "lcnet_050", "hrnet_w18_small", "dla34", "cspdarknet53", "ese_vovnet19b_dw", "inception_v3"),
    *("xception41", "eca_nfnet_l0", "botnet26t_256", "convnext_atto", "convnextv2_atto", "vit_tiny_patch16_224"),
    *("deit_tiny_distilled_patch16_224", "eva02_tiny_patch14_224", "swin_tiny_patch4_window7_224", "mobilevit_xs"),
    *("mobilevitv2_050", "efficientformer_l1", "efficientformerv2_s0", "poolformer_s12", "edgenext_xx_small"),
    *("levit_128s", "fastvit_t8", "mixer_s32_224", "resmlp_12_224", "gmlp_ti16_224", "coat_lite_tiny", "pit_ti_224"),
    *("cait_xxs24_224", "xcit_nano_12_p16_224", "maxvit_pico_rw_256"),
)
"""One or two small ones of each family."""
GOAL = 48
EQUAL = 1e-4
"""Greatest difference from ONNX Runtime, as a share of the output's range, of a network that is equal to it."""
SCENES, SIDE = 4, 320

Row = dict[str, Any]


def main() -> None:
    """Export what is missing, try each network, print and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--exporter", type=Path, default=Path(sys.executable))
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    parser.add_argument("--keep", action="store_true", help="write the result files")
    arguments = parser.parse_args()
    missing = [name for name in arguments.only if not (arguments.folder / f"{name}.onnx").exists()]
    if missing and subprocess.run([arguments.exporter, "-c", "import timm"], stderr=subprocess.DEVNULL).returncode:
        print(f"left out: {arguments.exporter} has no timm, which exports {', '.join(missing)}")
        return
    if missing:
        script = Path(__file__).with_name("timm_export.py")
        subprocess.run([arguments.exporter, script, arguments.folder, *missing], check=True)
    rows = []
    for name in arguments.only:
        rows.append(row_of(name, arguments.folder / f"{name}.onnx"))
        print(rows[-1], flush=True)
    print(summary(rows))
    if arguments.keep:
        command = "python benchmarks/timm_networks.py FOLDER --exporter PYTHON --keep"
        write_json("timm-networks", command, {"networks": rows})
        write_markdown("timm-networks", command, f"{summary(rows)}\n\n{table(rows)}")
    if sum(map(is_right, rows)) < min(GOAL, len(rows)):
        raise SystemExit(f"fewer than {GOAL} are right")


def row_of(name: str, path: Path) -> Row:
    """What becomes of a network; `refused` says why it is not read, quantized or run."""
    row: Row = {"network": name, "megabytes": round(path.stat().st_size / 1e6, 1)}
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = import_network(path, Path(folder) / "net.safetensors", Pixels(deviation=(255.0,)))
            row |= {"difference": found.difference}
            assert isinstance(found.model, FloatModel)
            return row | compared(*quantized(found.model))
    except (ToolchainError, BackendError) as error:
        return row | {"refused": str(error).replace(f"{path}: ", "")}


def quantized(model: FloatModel) -> tuple[Model, Any]:
    """The network with ranges of drawn scenes, and a prepared image beside them."""
    scenes = CrowdedScenes(7, SIDE)
    frames = np.stack([scenes.draw(number).pixels for number in range(SCENES + 1)])
    images = PreparedImages(model, ArrayFrames(frames, "drawn scenes"))
    prepared = Prepared(model, images.take(range(SCENES)), Events())
    return prepared.builder(Choice("minmax", "multiplier")).build(), images[SCENES]


def compared(model: Model, image: Any) -> Row:
    """Mismatches of the cpu backend's integers with the reference's, and how many different ones there are."""
    wanted = reference.run(model, image)
    with closing(choose("cpu").compile(model, {"threads": 1})) as session:
        pairs = list(zip(session.run(image), wanted, strict=True))
    return {
        "mismatches": sum(int((a != b).sum()) for a, b in pairs),
        "distinct": sum(len(np.unique(b)) for _, b in pairs),
    }


def is_right(row: Row) -> bool:
    """Whether a network is read, equal to ONNX Runtime, and its integers are the same on both."""
    difference = row.get("difference")
    return difference is not None and difference <= EQUAL and row.get("mismatches") == 0


def summary(rows: list[Row]) -> str:
    """One sentence."""
    differences = [row["difference"] for row in rows if row.get("difference") is not None]
    read = sum("difference" in row for row in rows)
    furthest = f", at most {max(differences):.1e} from ONNX Runtime" if differences else ""
    return (
        f"Of {len(rows)} networks {read} come in without options{furthest}; {sum(map(is_right, rows))} are equal to "
        "it and, quantized, the same on cpu and reference to the last integer."
    )


def table(rows: list[Row]) -> str:
    """A line for each network."""
    head = "| network | MB | difference from ONNX Runtime | integers that differ |\n|---|---|---|---|\n"
    return head + "\n".join(
        f"| {row['network']} | {row['megabytes']} | {row.get('difference') or 0:.1e} | "
        f"{row['refused'][:200].replace('|', '/') if 'refused' in row else row['mismatches']} |"
        for row in rows
    )


if __name__ == "__main__":
    main()
