"""The application: planning, running and reading results, for the command line, notebooks, agents and verbs alike."""
