# What features use of the machine beyond the public names.
# They are declared only here; `__init__.py` reads it.

from harness.system import columns as columns
from harness.system import errors as errors
from harness.system import forks as forks
from harness.system import locks as locks
from harness.system.files import FILES as FILES
from harness.system.files import SEAL as SEAL
from harness.system.files import alone as alone
from harness.system.files import listed_digests as listed_digests
from harness.system.files import parse_json as parse_json
from harness.system.files import read_bytes as read_bytes
from harness.system.files import read_json as read_json
from harness.system.files import read_set as read_set
from harness.system.files import seal_holds as seal_holds
from harness.system.files import sealed as sealed
from harness.system.files import sweep as sweep
from harness.system.files import user_path as user_path
from harness.system.files import write_folder as write_folder
from harness.system.files import write_json as write_json
from harness.system.files import write_whole as write_whole
from harness.system.text import count as count
from harness.system.text import harmless as harmless
from harness.system.text import span as span
from harness.system.text import words as words
