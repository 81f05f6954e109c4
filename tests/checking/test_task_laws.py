from __future__ import annotations

import pytest

from harness.contracts.data import problem
from harness.tasks import DensityTask
from plugins.checking.law import Skip
from plugins.checking.task_laws import TASK_LAWS
from tasks import bench_tasks
from tasks.deep_linear.task import DeepLinear1K
from tasks.latent.bpmf import BpmfSmall
from tasks.latent.lda import LdaReuters, LdaSmall
from tasks.posteriordb import regressions
from tasks.posteriordb.eight_schools import EightSchoolsNoncentered
from tasks.posteriordb.gaussian_process import GaussianProcessRegression
from tasks.posteriordb.hidden_markov import HmmExample
from tasks.regression.a9a.task import A9a
from tasks.regression.blr import Australian, German, Heart
from tasks.regression.flights.task import FlightDelays
from tasks.regression.misspecified import PoissonMisspecified, RobustMisspecified
from tasks.regression.mnist.task import MnistLogistic
from tasks.regression.ravine import Ravine
from tasks.regression.tiny.task import TinyNetwork
from tasks.regression.uci.task import Airfoil, Bikesharing, Energy, Yacht
from tasks.synthetic.bimodal1d import Bimodal1D
from tasks.synthetic.curved import Banana, Rosenbrock
from tasks.synthetic.funnel import Funnel
from tasks.synthetic.gaussian import IllConditionedGaussian
from tasks.synthetic.gaussian2d import Gaussian2D
from tasks.synthetic.mixture2d import Mixture2D
from tasks.synthetic.mixture5 import Mixture5
from tasks.synthetic.mixture25 import Mixture25
from tasks.vision.cnn import DigitsCNN
from tasks.vision.landsat import Landsat
from tasks.vision.mnist_sparse import MnistSparse
from tasks.vision.notmnist import NotMNIST

pytestmark = pytest.mark.usefixtures("one_thread")

TASKS = {
    "airfoil": Airfoil(),
    "banana": Banana(),
    "bikesharing": Bikesharing(),
    "bimodal1d": Bimodal1D(),
    "bpmf-small": BpmfSmall(),
    "blr-a9a": A9a(),
    "dln-1k": DeepLinear1K(),
    "flights": FlightDelays(),
    "flights-hierarchical": FlightDelays(hierarchical=True),
    "mnist-logistic": MnistLogistic(),
    "digits-cnn": DigitsCNN(),
    "energy": Energy(),
    "funnel": Funnel(noise_kind="correlated"),
    "gaussian": IllConditionedGaussian(noise_kind="correlated"),
    "gaussian-100": IllConditionedGaussian(dimension=100, noise_kind="student-t"),
    "gaussian2d": Gaussian2D(),
    "lda-reuters": LdaReuters(),
    "lda-small": LdaSmall(),
    "mixture2d": Mixture2D(),
    "ravine": Ravine(),
    "rosenbrock": Rosenbrock(noise_kind="skewed"),
    "ravine-0": Ravine(data_seed=0),
    "tiny-bnn": TinyNetwork(),
    "yacht": Yacht(),
    "mixture5": Mixture5(),
    "mixture25": Mixture25(),
    "mixture25-quiet": Mixture25(noise=0.0),
    "blr-australian": Australian(),
    "blr-german": German(),
    "blr-heart": Heart(),
    "blr-heart-20": Heart(batch=20),
    "notmnist": NotMNIST(),
    "poisson-misspecified": PoissonMisspecified(),
    "robust-misspecified": RobustMisspecified(law="sandwich"),
    "pdb-eight-schools-noncentered": EightSchoolsNoncentered(),
    "pdb-gp-regr": GaussianProcessRegression(),
    "pdb-hmm-example": HmmExample(),
    "pdb-kilpisjarvi": regressions.Kilpisjarvi(),
    "pdb-nes2000-32": regressions.Nes2000(batch=32),
    "landsat": Landsat(),
    "mnist-sparse": MnistSparse(),
}
NETWORKS = {
    "airfoil",
    "bikesharing",
    "digits-cnn",
    "energy",
    "yacht",
    "notmnist",
    "landsat",
    "mnist-sparse",
    "tiny-bnn",
}
LATENT = {"bpmf-small", "lda-reuters", "lda-small"}
"""Nobody knows the moments of theta."""

ELSEWHERE = {"cifar10", "cifar100", "digits-cnn-px", "imagenet", "landsat", "mnist-sparse", "notmnist"}
"""Networks: in unit/tasks/test_convolutional.py, test_imagenet.py, test_dense.py and test_expansion.py."""

SAME = {"concrete", "mnist-cnn", "power-plant", "protein", "wine-quality-red", "dln-10k", "dln-100k"}
SAME |= {info.name for info in bench_tasks() if info.group == "posteriordb"}
"""The classes of others with other data or of another size; they have tests of their own."""

POSTERIORS = {"pdb-eight-schools-noncentered", "pdb-gp-regr", "pdb-hmm-example"}
"""Densities with exact gradients and the moments of reference draws."""

FEW = {"flights", "flights-hierarchical", "mnist-logistic"}
"""On few rows, whose moments nobody knows; their own tests hold the truths of all rows."""

JUDGED_BY_DRAWS = {"pdb-kilpisjarvi", "pdb-nes2000-32"}
DENSITIES = {name for name, task in TASKS.items() if isinstance(task, DensityTask)}
SILENT = {
    "prior counted once": {*DENSITIES, *JUDGED_BY_DRAWS, "dln-1k", "lda-reuters", "lda-small"},
    "batch sizes agree": DENSITIES,
    "truth by another route": {*NETWORKS, *FEW, *LATENT, *JUDGED_BY_DRAWS, *POSTERIORS, "ravine", "funnel", "dln-1k"},
    "mean of batches": {"mixture25-quiet", *POSTERIORS},
    "state restores the batches": {"mixture25-quiet", *POSTERIORS},
    "compiled is plain": {"pdb-gp-regr"},
}


LONG = {
    ("truth by another route", "blr-a9a"), ("truth by another route", "gaussian-100"),
    *(("weights count", name) for name in ("bikesharing", "blr-a9a", "digits-cnn")),
    *(("blocks do not matter", name) for name in (
        "bikesharing", "blr-a9a", "digits-cnn", "landsat", "mnist-sparse", "notmnist",
    )),
}  # fmt: skip
"""Two chains of a hundred parameters on all the data; thousands of predictions, as unit/tasks/test_shifts.py has."""


@pytest.mark.parametrize(
    ("law", "check", "name"),
    [
        pytest.param(law, check, name, id=f"{law}-{name}", marks=[pytest.mark.slow] if (law, name) in LONG else [])
        for law, check in TASK_LAWS
        for name in TASKS
    ],
)
def test_every_task_keeps_every_law(name, law, check):
    task = TASKS[name].for_laws()
    for file in task.datasets:
        wrong = problem(file)
        if wrong:
            pytest.skip(f"{file.path} is {wrong} under BENCH_DATA")
    if name in SILENT.get(law, ()):
        with pytest.raises(Skip):
            check(task)
    else:
        check(task)


def test_all_built_in_tasks_are_offered_and_held_to_the_laws():
    assert {info.name for info in bench_tasks()} <= set(TASKS) | ELSEWHERE | SAME
