"""The built-in tasks by folder: synthetic/ has densities in closed form; the others have data."""

from __future__ import annotations

from harness import Info, hook
from tasks.posteriordb.listing import REGRESSIONS


@hook
def bench_tasks() -> list[Info]:
    """The tasks of this package."""
    blr = "tasks.regression.blr"
    dln = "tasks.deep_linear.task"
    uci = "tasks.regression.uci.task"
    pdb = "tasks.posteriordb"
    groups = {
        "densities": [
            ("banana", "tasks.synthetic.curved:Banana", "a crescent in two dimensions (Haario et al. 1999)"),
            ("bimodal1d", "tasks.synthetic.bimodal1d:Bimodal1D", "a quartic with two modes, in one dimension"),
            ("funnel", "tasks.synthetic.funnel:Funnel", "Neal's funnel, D = 10 (Neal 2003)"),
            ("gaussian", "tasks.synthetic.gaussian:IllConditionedGaussian", "an ill-conditioned Gaussian, D = 10"),
            ("gaussian2d", "tasks.synthetic.gaussian2d:Gaussian2D", "a correlated Gaussian in two dimensions"),
            ("mixture25", "tasks.synthetic.mixture25:Mixture25", "25 narrow Gaussian modes (Zhang et al. 2020)"),
            ("mixture2d", "tasks.synthetic.mixture2d:Mixture2D", "4 Gaussian modes, between mixture5 and mixture25"),
            ("mixture5", "tasks.synthetic.mixture5:Mixture5", "5 wide Gaussian modes (Kim et al. 2022)"),
            ("ravine", "tasks.regression.ravine:Ravine", "a regression with narrow ravines (Kim et al. 2022)"),
            ("rosenbrock", "tasks.synthetic.curved:Rosenbrock", "a narrow curved valley in two dimensions"),
        ],
        "logistic": [
            ("blr-a9a", "tasks.regression.a9a.task:A9a", "Bayesian logistic regression, a9a, 32,561 x 124"),
            ("blr-australian", f"{blr}:Australian", "Bayesian logistic regression, Australian credit, 690 x 15"),
            ("blr-german", f"{blr}:German", "Bayesian logistic regression, German credit, 1000 x 25"),
            ("blr-heart", f"{blr}:Heart", "Bayesian logistic regression, Statlog heart disease, 270 x 14"),
            ("flights", "tasks.regression.flights.task:FlightDelays", "late flights by logistic regression, D = 54"),
            ("mnist-logistic", "tasks.regression.mnist.task:MnistLogistic", "MNIST by softmax regression, D = 410"),
        ],
        "misspecified": [
            ("poisson-misspecified", "tasks.regression.misspecified:PoissonMisspecified",
             "Poisson regression of counts that are not Poisson's, 1,000 x 5, posterior or sandwich"),
            ("robust-misspecified", "tasks.regression.misspecified:RobustMisspecified",
             "robust regression with outliers, 1,000 x 5, posterior or sandwich"),
        ],
        "deep-linear": [
            ("dln-1k", f"{dln}:DeepLinear1K", "deep linear networks of 1,000 weights: the learning coefficient"),
            ("dln-10k", f"{dln}:DeepLinear10K", "deep linear networks of 10,000 weights"),
            ("dln-100k", f"{dln}:DeepLinear100K", "deep linear networks of 100,000 weights"),
        ],
        "regression-networks": [
            ("airfoil", f"{uci}:Airfoil", "Airfoil Self-Noise by a small network, 1,052 x 5, D = 658"),
            ("bikesharing", f"{uci}:Bikesharing", "Bike Sharing by a small network, 12,165 x 11, D = 754"),
            ("concrete", f"{uci}:Concrete", "Concrete Compressive Strength by a small network, 721 x 8, D = 706"),
            ("energy", f"{uci}:Energy", "Energy Efficiency by a small network, 537 x 8, D = 706"),
            ("power-plant", f"{uci}:PowerPlant", "Combined Cycle Power Plant by a small network, 6,697 x 4, D = 642"),
            ("protein", f"{uci}:Protein", "Protein Tertiary Structure by a small network, 32,010 x 9, D = 722"),
            ("tiny-bnn", "tasks.regression.tiny.task:TinyNetwork", "a 1-8-1 network whose truth is known, D = 25"),
            ("wine-quality-red", f"{uci}:Wine", "Red Wine Quality by a small network, 1,119 x 11, D = 754"),
            ("yacht", f"{uci}:Yacht", "Yacht Hydrodynamics by a small network, 215 x 6, D = 674"),
        ],
        "latent-variables": [
            ("bpmf-small", "tasks.latent.bpmf:BpmfSmall", "a simulated 60 x 40 matrix of rank 3, D = 300"),
            ("lda-reuters", "tasks.latent.lda:LdaReuters", "topics of 395 Reuters articles, D = 46,530"),
            ("lda-small", "tasks.latent.lda:LdaSmall", "topics of 30 simulated documents, D = 650"),
        ],
        "images": [
            ("cifar10", "tasks.vision.cifar:Cifar10", "CIFAR-10 by ResNet-18 (both papers), or ResNet-20 against HMC"),
            ("cifar100", "tasks.vision.cifar:Cifar100", "CIFAR-100 by ResNet-18, 11.2 M weights (both papers)"),
            ("digits-cnn", "tasks.vision.cnn:DigitsCNN", "digits of 8 x 8 by a CNN, with unseen and shifted images"),
            ("digits-cnn-px", "tasks.vision.expanded:DigitsCNNExpanded", "digits-cnn by a network of products P V Q"),
            ("imagenet", "tasks.vision.imagenet:ImageNet", "ImageNet by ResNet-50, from a folder (Zhang et al. 2020)"),
            ("landsat", "tasks.vision.landsat:Landsat", "satellite pictures by a 36-30-30-6 network (Kim et al. 2022)"),
            ("mnist-cnn", "tasks.vision.cnn:MnistCNN", "MNIST by a CNN, with unseen and shifted images, D = 55,338"),
            ("mnist-sparse", "tasks.vision.mnist_sparse:MnistSparse", "MNIST by a sparse network (Kim et al. 2022)"),
            ("notmnist", "tasks.vision.notmnist:NotMNIST", "an MLP of MNIST meets other images (Zhang et al. 2020)"),
        ],
        "posteriordb": [
            *REGRESSIONS,
            ("pdb-ark", f"{pdb}.time_series:AutoRegression", "an autoregression of order 5, D = 7"),
            ("pdb-arma11", f"{pdb}.time_series:Arma", "an ARMA(1, 1) process, D = 4"),
            ("pdb-eight-schools-centered", f"{pdb}.eight_schools:EightSchoolsCentered", "a funnel, D = 10"),
            ("pdb-eight-schools-noncentered", f"{pdb}.eight_schools:EightSchoolsNoncentered", "eight schools, D = 10"),
            ("pdb-garch11", f"{pdb}.time_series:Garch", "a GARCH(1, 1) process, D = 4"),
            ("pdb-gp-pois-regr", f"{pdb}.gaussian_process:GaussianProcessPoisson", "counts by a GP, D = 13"),
            ("pdb-gp-regr", f"{pdb}.gaussian_process:GaussianProcessRegression", "a Gaussian process, D = 3"),
            ("pdb-hmm-drive-0", f"{pdb}.hidden_markov:Drive0", "a hidden Markov model of basketball, D = 6"),
            ("pdb-hmm-drive-1", f"{pdb}.hidden_markov:Drive1", "the same, of logarithms, D = 6"),
            ("pdb-hmm-example", f"{pdb}.hidden_markov:HmmExample", "a hidden Markov model of made-up data, D = 4"),
            ("pdb-lotka-volterra", f"{pdb}.differential_equations:LotkaVolterra", "hares and lynxes, D = 8"),
            ("pdb-low-dim-gauss-mix", f"{pdb}.mixture:GaussMixture", "a mixture of two normal distributions, D = 5"),
            ("pdb-one-comp-mm-elim-abs", f"{pdb}.differential_equations:Elimination", "elimination of a drug, D = 4"),
        ],
    }  # fmt: skip
    return [Info(*each, group=group) for group, of_one in groups.items() for each in of_one]


@hook
def bench_settings() -> list[Info]:
    """The settings that these tasks state for some methods."""
    return [Info("image-networks", "tasks.vision.stated:stated", "first settings of methods on mnist-cnn, digits-cnn")]
