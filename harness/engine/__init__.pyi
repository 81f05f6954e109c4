# What features and law files use of the engine. The names are declared only here; `__init__.py` reads it.

from harness.engine.interface import named as named
from harness.engine.loop import Loop as Loop
from harness.engine.stepping.block import Block as Block
from harness.engine.stepping.execution_mode import by_update as by_update
from harness.engine.stepping.making import UncompiledError as UncompiledError
from harness.engine.stepping.noise import DirectNoise as DirectNoise
from harness.engine.stepping.noise import StepNoise as StepNoise
from harness.engine.stepping.potential import BoundPotential as BoundPotential
from harness.engine.stepping.potential import CountingPotential as CountingPotential
