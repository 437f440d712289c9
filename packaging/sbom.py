"""Write the software bill of materials (CycloneDX) of a bundle: every wheel in it, with digest and licence.

    sbom.py BUNDLE --out edgemeta-VERSION-MACHINE.cdx.json

BUNDLE is the folder that bundle.py makes. Equal bundles have equal files: no time and no random number is in it.
"""

import argparse
import json
import uuid
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

NAME = "edgemeta"
_CLASSIFIER = "License :: OSI Approved :: "


def licences(bundle: Path) -> dict[str, str]:
    """The licence of each distribution in a bundle, by its normalized name, in the words of its metadata."""
    found = {}
    for path in sorted(bundle.glob("*/*.dist-info/METADATA")):
        fields = HeaderParser().parsestr(path.read_text())
        stated = [each for each in fields.get_all("Classifier", []) if each.startswith(_CLASSIFIER)]
        classified = [each.removeprefix(_CLASSIFIER) for each in stated]
        text = fields["License-Expression"] or ", ".join(classified) or (fields["License"] or "").partition("\n")[0]
        found[normalized(fields["Name"])] = text
    return found


def normalized(name: str) -> str:
    """A distribution's name as in the names of wheels."""
    return name.lower().replace("-", "_").replace(".", "_")


def components(bundle: Path) -> Iterator[Component]:
    """One for each wheel."""
    known, factory = licences(bundle), LicenseFactory()
    for line in (bundle / "WHEELS").read_text().splitlines():
        digest, file = line.split("  ")
        name, version = file.split("-")[:2]
        found = {"file_name": file}
        words = known[normalized(name)]
        yield Component(
            type=ComponentType.APPLICATION if name == NAME else ComponentType.LIBRARY,
            name=name,
            version=version,
            bom_ref=file,
            purl=PackageURL("pypi", name=name.replace("_", "-").lower(), version=version, qualifiers=found),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
            licenses=[factory.make_from_string(words) if words else DisjunctiveLicense(name="not stated")],
        )


def text_of(bundle: Path) -> str:
    """The bill of a bundle."""
    parts = list(components(bundle))
    (own,) = [part for part in parts if part.name == NAME]
    others = [part for part in parts if part is not own]
    listed = (bundle / "WHEELS").read_text()
    bill = Bom(components=others, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, listed))
    bill.metadata.component = own
    bill.register_dependency(own, others)
    fields = json.loads(JsonV1Dot6(bill).output_as_string())
    fields["metadata"].pop("timestamp", None)  # when the library ran; the time of the commit is in the provenance
    return json.dumps(fields, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, help="folder made by bundle.py")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    arguments.out.write_text(text_of(arguments.bundle))


if __name__ == "__main__":
    main()
