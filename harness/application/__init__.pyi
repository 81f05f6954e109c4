# What features use of the application beyond the public names. They are declared only here; `__init__.py` reads it.

from harness.application.progress import Progress as Progress
