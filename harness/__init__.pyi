# What authors of samplers, notebooks and scripts need. They are declared only here; `__init__.py` reads it.

from harness import reports as reports
from harness import tasks as tasks
from harness.analysis import diagnostics as diagnostics
from harness.analysis import statistics as statistics
from harness.application.bench import Bench as Bench
from harness.application.bench import compare_on as compare_on
from harness.application.bench import load as load
from harness.cli import options as options
from harness.contracts.hookspecs import Info as Info
from harness.contracts.hookspecs import Method as Method
from harness.contracts.hookspecs import hook as hook
from harness.contracts.parameters import param as param
from harness.contracts.registry import Registry as Registry
from harness.contracts.registry import registry as registry
from harness.contracts.sampler import Noise as Noise
from harness.contracts.sampler import Potential as Potential
from harness.contracts.sampler import Sampler as Sampler
from harness.contracts.schedule import Schedule as Schedule
from harness.contracts.schedule import Trajectory as Trajectory
from harness.engine import linear as linear
from harness.reporting.report import Result as Result
from harness.system.errors import BenchError as BenchError
from harness.system.errors import DataError as DataError
from harness.system.errors import PluginError as PluginError
from harness.system.errors import RunError as RunError
from harness.system.errors import UsageError as UsageError
