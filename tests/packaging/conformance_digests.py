"""Print the digest of the logits of every conformance case: run where the package is installed, and compared elsewhere.

usage: conformance_digests.py BACKEND FOLDER...    the folders hold the modules to import
"""

import hashlib
import sys
from contextlib import closing

sys.path += sys.argv[2:]
from cases import CASES

from edgemeta.plugins.registry import choose

backend = choose(sys.argv[1])
for case in CASES:
    digest = hashlib.sha256()
    with closing(backend.compile(case.model, {})) as session:
        for _, batch in case.batches():
            digest.update(session.run(batch).astype("<i4").tobytes())
    print(case.name, digest.hexdigest())
