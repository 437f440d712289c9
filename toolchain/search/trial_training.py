"""Trains the network of a trial at its bits, in the precision simulator, and makes the device's integers of it.

Each step of a trial begins again with the float weights, and its learning rate falls to zero at the step's last epoch:
a longer training that is stopped early would be measured at a learning rate that no network is shipped with.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch

from edgemeta.model.graph import Model
from edgemeta.model.yaml_file import Source, checked
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.search.config import SearchConfig, TrialTraining
from edgemeta.toolchain.search.training_file import require_searched, training_config
from edgemeta.toolchain.simulate.training.config import TrainingConfig
from edgemeta.toolchain.simulate.training.exported import integer_model
from edgemeta.toolchain.simulate.training.job import Job
from edgemeta.toolchain.simulate.training.run import train_network
from edgemeta.toolchain.simulate.training.train import CHECKPOINT
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.run_folder import data_digest
from edgemeta.toolchain.train.start import known_design
from edgemeta.toolchain.train.workers import ALONE

_WATCHED = 100
"""Judged images that the training's own log is measured on."""


class TrialTrainer:
    """Trains on `images`, which judge no trial; judged: those of the trials.

    PyTorch uses one thread, so that a trial's result does not depend on the number of cores, and several workers do not
    stand in each other's way.
    """

    def __init__(
        self, config: SearchConfig, settings: TrialTraining, network: BitNetwork, images: Dataset, judged: Dataset
    ) -> None:
        require_searched(config, network)
        self._config, self._settings, self._network = config, settings, network
        self._images = images.balanced(settings.images)
        self._watched = judged.take(np.arange(min(_WATCHED, len(judged))))

    def train(self, bits: Bits, epochs: int) -> Model:
        """The integer network after so many epochs. Raises SimulateError, QuantizeError or ModelError without one."""
        torch.set_num_threads(1)
        job = self._job(bits, epochs)
        with tempfile.TemporaryDirectory() as folder:
            reporter = Reporter(Path(folder) / "log.jsonl", None)
            identity = RunIdentity(job.recipe, job.content)
            trained = train_network(job, Path(folder) / CHECKPOINT, identity, ALONE, reporter)
        return integer_model(trained.network, job, self._config.name, lambda _done, _total: None)

    def _job(self, bits: Bits, epochs: int) -> Job:
        entries = training_config(self._config, self._network, bits) | {
            "epochs": epochs,
            "warmup_epochs": 0,
            "batch": min(self._settings.batch, len(self._images)),
            "lr": self._settings.lr,
            "seed": self._config.seed,
        }
        chosen = checked(TrainingConfig, entries, Source("the training of a trial"), SimulateError)
        model = self._network.model
        design = known_design(model)
        content = data_digest(self._images, self._watched)
        return Job(chosen, self._images, self._watched, design, model, chosen.digest(design, None), content)
