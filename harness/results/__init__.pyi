# What features use of the results beyond the public names.
# They are declared only here; `__init__.py` reads it.

from harness.results import environment as environment
from harness.results import provenance as provenance
from harness.results import spec as spec
from harness.results import timings as timings
from harness.results.ledger import commit as commit
from harness.results.ledger import rescored as rescored
from harness.results.ledger.attempt import FILE_NAMES as FILE_NAMES
from harness.results.ledger.attempt import NAME as NAME
from harness.results.ledger.attempt import RESULT as RESULT
from harness.results.ledger.attempt import WORK as WORK
from harness.results.ledger.attempt import Attempt as Attempt
from harness.results.ledger.attempt import checksum as checksum
from harness.results.ledger.attempt import now as now
from harness.results.ledger.heartbeats import Send as Send
from harness.results.ledger.heartbeats import ranges as ranges
from harness.results.ledger.ledger import KEY as KEY
from harness.results.ledger.ledger import Ledger as Ledger
from harness.results.records import ELSEWHERE as ELSEWHERE
from harness.results.records import FINAL as FINAL
from harness.results.records import RESUMABLE as RESUMABLE
from harness.results.records import TABLES as TABLES
from harness.results.records import AttemptResult as AttemptResult
from harness.results.records import Status as Status
from harness.results.records import Verification as Verification
from harness.results.records import columns_of as columns_of
from harness.results.spec import ENGINE as ENGINE
from harness.results.spec import KEY_VERSION as KEY_VERSION
from harness.results.spec import MAX_CHAINS as MAX_CHAINS
from harness.results.spec import PARTS as PARTS
from harness.results.spec import Component as Component
from harness.results.spec import RunSpec as RunSpec
from harness.results.store import changes as changes
from harness.results.store import connection as connection
from harness.results.store import ingest as ingest
from harness.results.store import reader as reader
