"""Every file is written through harness/system/files.py: this reads the source and finds what is not."""

import ast
import re
from pathlib import Path

import pytest

from harness.results.ledger.attempt import FILE_NAMES

ROOT = Path(__file__).parents[2]
PACKAGES = ("harness", "plugins", "tasks", "reports")
HELPER = "harness/system/files.py"
DECLARED = {
    "harness/results/ledger/attempt.py: Attempt.event: open": "grows by a line; the next ends one cut off",
    "harness/results/ledger/seals.py: _append: open": "grows by lines; one that a crash cut off spoils no other",
    "harness/results/ledger/attempt.py: Attempt.append_draws: open": "grows; a checkpoint has the digest of its part",
    "harness/results/ledger/attempt.py: Attempt.cut_draws: open": "cut back to what the checkpoint counts on",
    "harness/results/ledger/attempt.py: Attempt.cut_draws: truncate": "cut back to what the checkpoint counts on",
    "harness/results/ledger/commit.py: mark_changed: touch": "an empty file of a name of its own",
    "harness/contracts/plugin_process.py: answers: dump": "to the pipe of a process",
    "harness/contracts/plugin_process.py: serve: fdopen": "to the pipe of a process",
    "harness/contracts/plugin_process.py: serve: dump": "to the pipe of a process",
    "harness/system/streams.py: secure: open": "the null device, in place of a closed stream",
    "harness/system/locks.py: lock_file: pwrite": "the lock is on the file itself; the text is for messages only",
    "harness/results/ledger/attempt.py: Attempt.take_over: copyfile": "digests tell a part of a file from the whole",
    "plugins/clusters/local.py: Local.submit: open": "the output of a process, into the exchange of its job",
    "plugins/clusters/ray.py: _Job._agent: open": "the output of a process, into its folder on the node",
    "plugins/checking/samplers/restore.py: Resumption.__init__: write_text": "to its own process, a temporary folder",
    "plugins/checking/samplers/restore.py: Resumption._prepare: save_file": "to its own process, in a temporary folder",
    "plugins/checking/resume.py: main: write_text": "back to the process that began it, in its temporary folder",
    "plugins/truths/agreement.py: main: write_text": "a page and its data in the source tree, by its developer",
    "tasks/latent/gibbs.py: main: write_text": "a record in the source tree, by its developer",
    "tasks/posteriordb/tables.py: write: open": "tables in the source tree, by their developer",
    "plugins/checking/resume.py: main: save_file": "back to the process that began it, in its temporary folder",
}
"""What writes without the helper, and why it may: file, function, call."""
ALWAYS = {
    "write_text", "write_bytes", "savefig", "imsave", "save_file", "serialize_file", "tofile", "save_npz", "savez",
    "savez_compressed", "savetxt", "write_table", "write_dataset", "write_parquet", "sink_parquet", "write_csv",
    "sink_csv", "write_ndjson", "write_ipc", "write_excel", "write_database", "to_parquet", "to_csv",
    "to_pickle", "to_feather", "copyfile", "copyfileobj", "copytree", "copy2", "move", "make_archive",
    "unpack_archive", "extract", "extractall", "mkstemp", "mkdtemp", "NamedTemporaryFile", "FileHandler", "retrieve",
    "urlretrieve", "touch", "truncate", "symlink_to", "hardlink_to", "print_figure"
}  # fmt: skip
OF_MODULE = {
    "shutil": {"copy"},
    "np": {"save"},
    "numpy": {"save"},
    "torch": {"save"},
    "os": {"link", "symlink", "pwrite"},
    "json": {"dump"},
    "pickle": {"dump"},
}
MODE = re.compile(r"[rwaxbt+U|:gzx]*[wax+][rwaxbt+|:gzx]*")
FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}
COPY = re.compile(r"\bcopy\b.*\bto\b|\bexport database\b", re.IGNORECASE | re.DOTALL)


def found_in(source):
    """The calls in a source text that write a file: `FUNCTION: CALL`."""
    calls = []

    def visit(node, names):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [*names, node.name]
        if isinstance(node, ast.Call) and (name := writes(node)):
            calls.append(f"{'.'.join(names)}: {name}")
        for child in ast.iter_child_nodes(node):
            visit(child, names)

    visit(ast.parse(source), [])
    return calls


def writes(call):
    """The name of a call that writes a file, or None."""
    func = call.func
    owner = func.value.id if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) else ""
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if any(isinstance(value, ast.Name) and value.id == "in_memory" for value in values):
        return None
    if name in {"open", "fdopen"}:
        flags = {part.attr for value in values for part in ast.walk(value) if isinstance(part, ast.Attribute)}
        first_is_path = not isinstance(func, ast.Attribute) or owner in {"os", "io", "tarfile", "gzip", "zipfile"}
        modes = call.args[1:] if first_is_path else call.args
        modes = [*modes, *(keyword.value for keyword in call.keywords if keyword.arg in {"mode", "flag"})]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        return name if flags & FLAGS or any(MODE.fullmatch(text) for text in texts) else None
    if name in ALWAYS or name in OF_MODULE.get(owner, ()):
        return name
    texts = [part.value for value in values for part in ast.walk(value) if isinstance(part, ast.Constant)]
    if name in {"execute", "sql", "query"} and any(isinstance(text, str) and COPY.search(text) for text in texts):
        return "COPY TO"
    return None


OF_ATTEMPTS = ("harness/results/ledger/attempt.py", "harness/results/ledger/commit.py", "plugins/upkeep/garbage.py")
CHANGES = {
    "write_whole", "write_json", "write_new", "create", "write_set", "rename", "replace", "unlink", "remove",
    "rmtree", "move", *ALWAYS
}  # fmt: skip


def changed_in(source):
    """The files of an attempt that calls in a source text change, by the names written there."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    paths = [
        call.args[:1] if isinstance(call.func, ast.Name) else [call.func, *call.args[:1]]
        for call in calls
        if (call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")) in CHANGES
    ]
    parts = [part for values in paths for value in values for part in ast.walk(value)]
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return [text for text in texts if re.fullmatch(FILE_NAMES, text)]


def test_only_an_attempt_and_its_commit_change_its_files():
    changed = {
        str(path.relative_to(ROOT)): names
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if (names := changed_in(path.read_text(encoding="utf-8")))
    }
    assert changed.keys() <= set(OF_ATTEMPTS), "add a method to Attempt"


@pytest.mark.parametrize(
    "line",
    [
        'write_json(attempt.path / "spec.json", x)', '(folder / "spec.json").unlink()', '(p / "spec.json").touch()',
        'write_whole(p / "spec.json", b)', '(p / "spec.json").write_text("")', 'os.replace(p / "spec.json", q)',
    ],
)  # fmt: skip
def test_a_change_of_a_file_of_an_attempt_is_seen(line):
    assert changed_in(line) == ["spec.json"]


def test_files_are_written_through_the_one_helper():
    writers = {
        f"{path.relative_to(ROOT)}: {write}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for write in found_in(path.read_text(encoding="utf-8"))
        if str(path.relative_to(ROOT)) != HELPER
    }
    assert not writers - DECLARED.keys(), "write through harness/system/files.py, or declare it above with a reason"
    assert not DECLARED.keys() - writers, "declared, and not in the source any more"


@pytest.mark.parametrize(
    "line",
    [
        'open(p, "w")', 'open(p, mode="a")', 'p.open("wb")', 'p.open("r+b")', 'open(p, "x", encoding="utf-8")',
        "os.open(p, os.O_WRONLY | os.O_CREAT)", 'tarfile.open(p, "w:gz")', 'p.write_text("")', "p.write_bytes(b)",
        "frame.write_parquet(p)", "pyarrow.parquet.write_table(rows, p)", "figure.savefig(p)", "shutil.copy(a, b)",
        "shutil.move(a, b)", "json.dump(x, stream)", "np.save(p, x)", "torch.save(x, p)", "archive.extractall(p)",
        """db.execute("copy run to 'x.parquet'")""", """db.sql(f"COPY (select 1) TO '{p}' (format parquet)")""",
    ],
)  # fmt: skip
def test_such_a_call_is_found(line):
    assert found_in(f"def f():\n    {line}") == [f"f: {writes(ast.parse(line).body[0].value)}"]
