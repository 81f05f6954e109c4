"""The built-in reports: tables/ and figures/. They read only the store."""

from __future__ import annotations

from harness import Info, hook

SMALL = "--task notmnist --budget smoke --seeds 0-1"
COMMANDS = {
    "bench run --sampler sgld,csgld --task mixture25 --chains 8 --budget quick": (
        "autocorrelation", "contours", "coverage", "density", "ess-draws", "marginals", "rank-plots", "sample-paths",
        "schedules", "trace", "trajectory",
    ),
    "bench run --sampler sgld,psgld,hmc --task mixture5,blr-heart --chains 8 --budget quick": (
        "best", "bias", "convergence", "ess", "factors", "findings", "leaderboard", "needed-seeds", "overall",
        "profile", "ranks", "targets",
    ),
    "bench run --sampler sgld,psgld,hmc --task mixture5 --chains 8 --budget quick, and then bench time": ("pareto",),
    f"bench run --sampler sgld,csgld {SMALL}": (
        "curves", "cycles", "entropy", "mds", "ood", "rejection", "reliability",
    ),
    f"bench run --sampler csgld {SMALL} --set task.by_cycle=true": ("cycle-weights",),
    f"bench run --sampler csgld {SMALL} --sweep schedule.cycles=2,4 schedule.beta=0.5,0.8": ("cycle-beta",),
    f"bench run --sampler csgld {SMALL} --draws all": ("interpolation",),
    "bench run --sampler sgld,csgld,psgld --task digits-cnn --budget smoke --seeds 0-1": ("shift",),
    "bench run --sampler sgld --task landsat --budget smoke --seeds 0-1 --sweep schedule.temperature=0,0.1,1": (
        "tempering",
    ),
    "bench run --sampler sgld --task mixture25 --chains 4 --budget steps=1000, and again with --chains 1 --budget "
    "steps=4000": ("equal-cost",),
    "bench run --sampler sgld,baoab --task blr-heart --chains 4 --budget quick --sweep run.substeps=1,2,4": (
        "step-bias",
    ),
    "bench tune --sampler sgld,psgld --task blr-heart --trials 10 --budget smoke": ("sensitivity",),
}  # fmt: skip
"""A command that takes minutes at most, and the reports that show its results."""
FILL = {name: command for command, names in COMMANDS.items() for name in names}
REPORTS = {
    "autocorrelation": ("figures.autocorrelation:Autocorrelation", "autocorrelation against the lag"),
    "bias": ("figures.bias:Bias", "bias by step size and batch size, beside HMC and by the exact law"),
    "contours": ("figures.contours:Contours", "energy contours, true and estimated from draws"),
    "best": ("tables.best:Best", "which method is best, by how much, and what is undecided"),
    "convergence": ("figures.convergence:Convergence", "error by data passes and by seconds"),
    "coverage": ("tables.coverage:Coverage", "modes found, with their masses and spreads"),
    "cycle-beta": ("tables.cycle_beta:CycleBeta", "the number of cycles and the share of exploration"),
    "cycle-weights": ("tables.cycle_weights:CycleWeights", "cycles weighted by likelihood and equally"),
    "curves": ("figures.curves:Curves", "errors against data passes and against seconds"),
    "cycles": ("figures.cycles:Cycles", "error of the ensemble against the number of cycles"),
    "density": ("figures.density:Density", "a target in one or two dimensions and draws"),
    "entropy": ("figures.entropy:Entropy", "predictive entropy on unseen images, and their detection"),
    "equal-cost": ("tables.equal_cost:EqualCost", "parallel chains and one chain at the same total cost"),
    "ess": ("tables.ess:EffectiveSize", "effective sample sizes, with bias and temperature"),
    "ess-draws": ("figures.ess_draws:EssDraws", "effective sample size against the number of draws"),
    "factors": ("figures.factors:Factors", "times the best joint error, methods by tasks, with verdicts"),
    "findings": ("tables.findings:Findings", "leaders, costs, failures, and published orderings"),
    "functions": ("tables.functions:Functions", "functions of theta beside their truths"),
    "interpolation": ("figures.interpolation:Interpolation", "test error between draws of two cycles"),
    "leaderboard": ("tables.leaderboard:Leaderboard", "the ranking of samplers on each task"),
    "marginals": ("figures.marginals:Marginals", "histograms of draws beside the target's density"),
    "mds": ("figures.mds:Scaling", "draws in the space of weights, by multidimensional scaling"),
    "pareto": ("figures.pareto:Pareto", "cost and error of each method on each task, with the front"),
    "overall": ("tables.overall:Overall", "one table over all tasks: targets reached, speed-up over sgld"),
    "needed-seeds": ("tables.needed_seeds:NeededSeeds", "how many seeds decide which orderings and rows"),
    "profile": ("figures.profile:Profile", "share of tasks solved within a factor of the best method"),
    "ranks": ("figures.ranks:Ranks", "mean ranks over tasks, with the critical difference"),
    "ood": ("figures.ood:OutOfDistribution", "ROC and score histograms of unseen images"),
    "rank-plots": ("figures.rank_plots:RankPlots", "ranks of draws, a histogram a chain"),
    "rejection": ("figures.rejection:Rejection", "accuracy against the share of images rejected"),
    "reliability": ("figures.reliability:Reliability", "accuracy against confidence, with counts"),
    "sample-paths": ("figures.sample_paths:SamplePaths", "energy contours, and paths across them"),
    "schedules": ("figures.schedules:Schedules", "step size and temperature against the step"),
    "sensitivity": ("figures.sensitivity:Sensitivity", "error against the step size, of tuning's trials"),
    "shift": ("figures.shift:Shift", "error, NLL and calibration on shifted images, by severity"),
    "targets": ("figures.targets:TargetsReached", "share of fixed targets of the error reached, by cost"),
    "step-bias": ("tables.step_bias:StepBiasReport", "bias by the step size, from runs at h, h/2 and h/4"),
    "tempering": ("figures.tempering:Tempering", "error and likelihood against the temperature"),
    "theorem1": ("figures.theorem1:Theorem1", "exact bias and error of csgld, with fitted rates"),
    "theorem3": ("tables.theorem3:Theorem3", "exact limits of msgld and asgld, beside theorems 3.1, 3.2"),
    "trace": ("figures.trace:Trace", "the draws of each chain in their order"),
    "trajectory": ("figures.trajectory:Trajectories", "position and velocity, draw by draw"),
}
"""The class and the summary of each report, by name."""


@hook
def bench_reports() -> list[Info]:
    """Return the reports of this package, each with the command that fills it."""
    return [
        Info(name, f"reports.{target}", summary, fill=FILL.get(name, "")) for name, (target, summary) in REPORTS.items()
    ]


@hook
def bench_facts() -> list[Info]:
    """Return the function that names the samplers that run beside a row on seeds of its own."""
    return [Info("peers", "reports.tables.findings:reference_set")]
