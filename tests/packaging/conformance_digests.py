"""Print the digest of the logits of every conformance case: run where the package is installed, and compared elsewhere.

usage: conformance_digests.py BACKEND [FOLDER...]    the folders hold the packages to import
"""

import hashlib
import sys
from contextlib import closing

sys.path += sys.argv[2:]
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES

backend = choose(sys.argv[1])
for case in CASES:
    digest = hashlib.sha256()
    with closing(backend.compile(case.model, {})) as session:
        for _, batch in case.batches():
            for output in session.run(batch):
                digest.update(output.astype("<i4").tobytes())
    print(case.name, digest.hexdigest())
