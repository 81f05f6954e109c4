# What features use of the contracts beyond the public names. They are declared only here; `__init__.py` reads it.

from harness.contracts import data as data
from harness.contracts import plugin_process as plugin_process
from harness.contracts import user_files as user_files
from harness.contracts.offers import HARNESS as HARNESS
from harness.contracts.offers import KINDS as KINDS
from harness.contracts.offers import Offer as Offer
from harness.contracts.offers import Plugin as Plugin
from harness.contracts.offers import name_problem as name_problem
from harness.contracts.parameters import Configurable as Configurable
from harness.contracts.parameters import Field as Field
from harness.contracts.parameters import check as check
from harness.contracts.parameters import check_known as check_known
from harness.contracts.parameters import of_part as of_part
from harness.contracts.parameters import schema as schema
from harness.contracts.plugin_errors import format_error as format_error
from harness.contracts.plugin_errors import plugin_code as plugin_code
from harness.contracts.randomness import load_states as load_states
from harness.contracts.randomness import states as states
from harness.contracts.registry import load as load
