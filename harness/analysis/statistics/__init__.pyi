# The names of `harness.statistics`. They are declared only here; `__init__.py` reads this file.

from harness.analysis.statistics.intervals import Interval as Interval
from harness.analysis.statistics.intervals import as_values as as_values
from harness.analysis.statistics.intervals import bootstrap_interval as bootstrap_interval
from harness.analysis.statistics.intervals import mean_interval as mean_interval
from harness.analysis.statistics.intervals import t_multiplier as t_multiplier
from harness.analysis.statistics.ranks import LEADS as LEADS
from harness.analysis.statistics.ranks import MINIMUM_SEEDS as MINIMUM_SEEDS
from harness.analysis.statistics.ranks import Direction as Direction
from harness.analysis.statistics.ranks import Rank as Rank
from harness.analysis.statistics.ranks import Verdict as Verdict
from harness.analysis.statistics.ranks import rank_methods as rank_methods
from harness.analysis.statistics.ranks import rank_replicates as rank_replicates
from harness.analysis.statistics.tests import PairedTest as PairedTest
from harness.analysis.statistics.tests import bootstrap_t as bootstrap_t
from harness.analysis.statistics.tests import holm as holm
from harness.analysis.statistics.tests import log_ratio_test as log_ratio_test
from harness.analysis.statistics.tests import log_ratios as log_ratios
from harness.analysis.statistics.tests import most_failures as most_failures
from harness.analysis.statistics.tests import paired_test as paired_test
from harness.analysis.statistics.tests import power as power
from harness.analysis.statistics.tests import with_signed_ranks as with_signed_ranks
from harness.analysis.statistics.tests import within as within
