"""The verbs: each is there, has its line of help, and costs nothing until it is used."""

import typing

from harness.cli.app import VERBS, run
from harness.contracts.registry import load, registry

OWN = {**VERBS, **{offer.name: offer.info.summary for offer in registry().offers("verbs")}}
TARGETS = {
    **{verb: f"harness.cli.{verb}:{verb}" for verb in VERBS},
    **{offer.name: offer.target for offer in registry().offers("verbs")},
}  # fmt: skip


def test_every_number_has_a_range():
    seen = []
    for verb, target in TARGETS.items():
        whole = load(target)
        for function in [command.callback for command in getattr(whole, "registered_commands", [])] or [whole]:
            for name, hint in typing.get_type_hints(function, include_extras=True).items():
                if name != "return" and typing.get_args(hint)[:1] in ((int,), (int | None,)):
                    option = hint.__metadata__[0]
                    assert 0 <= option.min < option.max < 2**63, (verb, name)
                    seen.append(name)
    assert {"chains", "workers", "max_rows"} <= set(seen)


def test_the_help_has_every_verb_on_a_line_of_its_own(capsys):
    assert run(["--help"]) == 0
    shown = [
        line.strip()
        for line in capsys.readouterr().out.split("Commands:")[1].split("Examples:")[0].splitlines()
        if line.strip()
    ]
    assert [line.split()[0] for line in shown] == list(OWN)
    assert [line.split(maxsplit=1)[1] for line in shown] == list(OWN.values())
