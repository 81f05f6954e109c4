"""Every verb: its line of help, its parameters, and its examples, which parse, and are run where they are cheap."""

import json
import re
import shlex
import typing

import pytest

from harness.cli.app import _command, global_options, repeat, run
from harness.contracts.registry import load, registry

CHEAP = {
    "cite", "compare", "data ls", "gc", "ingest", "ls", "new", "plan", "report", "rescore", "show", "sql", "status",
}  # fmt: skip
"""The others need minutes, the network or a file of the user's."""
OURS = {"my-package", "my-sampler", "my-suite.toml", "my-task"}
"""Names that stand for a user's own."""
NAMED = {"sampler", "task", "method", "schedule", "suite", "name", "names", "words", "paper", "a", "b", "what"}


COMPLETED = {"sampler", "task", "method", "schedule", "suite", "paper", "budget", "names", "words"}
"""Parameters whose values have names that a shell can know."""
OFFERS = registry().offers("verbs")
SUMMARIES = {offer.name: offer.info.summary for offer in OFFERS}
TARGETS = [offer.target for offer in OFFERS]


def examples(text):
    _, _, block = text.partition("Examples:\n")
    return [shlex.split(line, comments=True) for line in block.splitlines() if line.strip().startswith("bench ")]


def commands():
    """Each verb, also of a group, with its command."""
    for verb in SUMMARIES:
        whole = _command(verb, ())
        for name, command in getattr(whole, "commands", {"": whole}).items():
            yield f"{verb} {name}".strip(), command


COMMANDS = dict(commands())
FILLS: dict[str, list[str]] = {}
"""The commands that fill reports -> these reports."""
for offer in registry().offers("reports"):
    FILLS.setdefault(offer.info.fill, []).append(offer.name)
EXAMPLES = [(verb, words) for verb, command in COMMANDS.items() for words in examples(command.epilog)]


def filling(command):
    """The words of the first command in a text."""
    return shlex.split(command.partition(", and ")[0])


def options(words):
    """The arguments of an example, after its verb."""
    verb = next(verb for verb in COMMANDS if words[1 : 1 + len(verb.split())] == verb.split())
    return verb, words[1 + len(verb.split()) :]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    words = ["--sampler", "sgld,csgld", "--task", "mixture25", "--seeds", "0-2", "--chains", "2"]
    assert run(["--results", str(folder), "run", *words, "--budget", "steps=200"]) == 0
    return folder


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_has_two_or_three_examples(verb, capsys):
    lines = [words for name, words in EXAMPLES if name == verb]
    assert 2 <= len(lines) <= 3
    assert {options(words)[0] for words in lines} == {verb}
    assert run([*verb.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage:")
    assert verb in shown.splitlines()[0]
    assert len(shown.split("Options:")[0].splitlines()) > 2
    assert examples(shown)[: len(lines)] == lines
    assert max(map(len, shown.splitlines())) <= 100


def test_the_help_of_bench_has_every_verb_on_a_line_and_examples(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert len(examples(shown)) == 3
    listed = shown.split("Commands:")[1].split("Examples:")[0].splitlines()
    assert [tuple(line.split(maxsplit=1)) for line in listed if line.strip()] == [*SUMMARIES.items()]


def test_every_number_has_a_range():
    seen = []
    for target in TARGETS:
        verb = load(target)
        for function in [command.callback for command in getattr(verb, "registered_commands", [])] or [verb]:
            for name, hint in typing.get_type_hints(function, include_extras=True).items():
                if name != "return" and typing.get_args(hint)[:1] in ((int,), (int | None,)):
                    option = hint.__metadata__[0]
                    assert 0 <= option.min < option.max < 2**63, (target, name)
                    seen.append(name)
    assert {"chains", "workers", "max_rows"} <= set(seen)


def test_every_parameter_with_a_known_set_of_names_completes_them():
    seen = set()
    for verb, command in COMMANDS.items():
        with command.make_context(verb, [], resilient_parsing=True) as ctx:
            for parameter in command.params:
                if parameter.name in COMPLETED:
                    assert parameter.shell_complete(ctx, ""), (verb, parameter.name)
                    seen.add(parameter.name)
    assert seen == COMPLETED


def test_every_report_that_needs_results_says_which_command_makes_them():
    assert sorted(FILLS.get("", [])) == ["functions", "theorem1", "theorem3"]  # the first shows tasks of users


@pytest.mark.parametrize("words", [*(words for _, words in EXAMPLES), *filter(None, map(filling, FILLS))], ids=" ".join)
def test_an_example_parses_and_its_names_exist(words):
    verb = options(words)[0]
    command = COMMANDS[verb]
    given = repeat([word for word in options(words)[1] if word not in {*global_options(), "latex"}])
    with command.make_context(verb, given) as ctx:
        for parameter in command.params:
            value = ctx.params[parameter.name]
            if value is None or parameter.name not in NAMED:
                continue
            known = {item.value for item in parameter.shell_complete(ctx, "")} | OURS | {"RUN", "mnist", "task"}
            for text in [value] if isinstance(value, str) else value:
                assert verb == "new" or set(text.split(",")) <= known, (parameter.name, text)


@pytest.mark.parametrize(
    "words", [words for verb, words in EXAMPLES if verb in CHEAP], ids=lambda words: " ".join(words[1:])
)
def test_a_cheap_example_runs(words, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key = next(results.glob("runs/*/*")).name
    assert run(["--results", str(results), *(key if word == "RUN" else word for word in words[1:])]) == 0


@pytest.mark.parametrize(
    "words",
    [words for words in [*(words for _, words in EXAMPLES), *map(filling, FILLS)] if words[1:2] == ["run"]],
    ids=" ".join,
)
def test_the_runs_of_an_example_can_be_planned(words, tmp_path):
    assert (
        run(["--results", str(tmp_path), "plan", *(word for word in words[2:] if word not in {"--draws", "all"})]) == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in FILLS if command])
def test_the_command_that_fills_a_report_does(command, tmp_path, capsys):
    first, _, second = command.partition(", and ")
    commands = [first, re.sub("^again with", first, re.sub("^then ", "", second))]
    for words in map(shlex.split, filter(None, commands)):
        assert run(["--results", str(tmp_path), *words[1:]]) in {0, 1}
    for name in FILLS[command]:
        capsys.readouterr()
        assert run(["--results", str(tmp_path), "report", name, "--json"]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out), name
        assert "This command would make" not in shown.err
