"""`bench sql` reads the results and does nothing else: whatever is asked, no file is read, made or changed."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import fabricated
import pytest
from fuzz.hostile import control
from support import bench_here, bench_words

from harness.results.store import Store
from harness.system.errors import UsageError

CONTENT = "the secret of the file"
ATTACKS = {
    "writing": """
        insert into meta values ('a', 'b')
        with x as (select 1) insert into meta select 'a', 'b' from x
        update run set seed = 0
        delete from run
        truncate run
        merge into meta using meta m on true when matched then delete
        drop table run
        alter table run add column a int
        create table t (a int)
        create temp table t as select 1
        create or replace view result as select 1
        create macro f(a) as a
        explain analyze insert into meta values ('a', 'b')
        prepare p as delete from run
        begin
        checkpoint
        call force_checkpoint()
        select * from query('delete from run')
    """,
    "attaching": """
        attach ':memory:' as m
        attach 'FOLDER/other.duckdb'
        attach 'FOLDER/results/results.duckdb' as again (read_write)
        attach 'https://example.org/a.duckdb'
        attach 'md:'
        detach results
        use memory
        copy from database results to memory
        create secret s (type s3)
    """,
    "reading files": """
        select * from read_csv('FOLDER/file.txt')
        select * from 'FOLDER/file.txt'
        from 'file.csv'
        table 'FOLDER/file.csv'
        describe 'FOLDER/file.csv'
        select * from read_text('FOLDER/file.txt')
        select content from read_blob('FOLDER/file.txt')
        select * from read_json('FOLDER/file.txt')
        select * from read_parquet('FOLDER/file.txt')
        select * from parquet_metadata('FOLDER/file.txt')
        select * from sniff_csv('FOLDER/file.txt')
        select * from read_duckdb('FOLDER/results/results.duckdb')
        select * from glob('FOLDER/*')
        select * from query('select * from read_text(''FOLDER/file.txt'')')
        select * from query_table('FOLDER/file.csv')
        select (select content from read_text('FOLDER/file.txt'))
        with x as materialized (from read_text('FOLDER/file.txt')) from x
        select * from run where method = (select content from read_text('FOLDER/file.txt'))
        explain analyze select * from read_text('FOLDER/file.txt')
        pivot (from read_csv('FOLDER/file.csv')) on a using count(*)
        select getenv('HOME')
        select * from duckdb_secrets()
        from 'http://localhost/x.parquet'
        from 's3://a/b.parquet'
        select * from read_csv('/dev/stdin')
        select * from sqlite_scan('FOLDER/file.txt', 'a')
        select * from json_execute_serialized_sql('{"error":false,"statements":[]}')
        import database 'FOLDER'
        copy meta from 'FOLDER/file.csv'
        copy (select 1) to 'FOLDER/made.csv'
        copy run to '/dev/stdout'
        export database 'FOLDER/made'
    """,
    "variables of the program": """
        select * from WORDS
        select * from CONTENT
        select * from db
        from incoming
        from python_map_function(1)
        from arrow_scan(1, 2, 3)
        from pandas_scan(1::bigint::pointer)
    """,
    "settings": """
        set threads = 1
        set variable x = 1
        set enable_external_access = true
        set lock_configuration = false
        set allowed_directories = ['/']
        set temp_directory = 'FOLDER'
        set python_enable_replacements = true
        set schema 'x'
        set logging_level = 'debug'
        set enable_profiling = 'json'
        reset threads
        pragma threads = 1
        pragma profiling_output = 'FOLDER/made'
        pragma enable_checkpoint_on_shutdown
        call enable_logging()
        call pragma_version()
    """,
    "extensions": """
        install httpfs
        install 'FOLDER/file.txt'
        load httpfs
        update extensions
        pragma create_fts_index('run', 'run_key', 'method')
        select st_point(1, 2)
    """,
    "several at once, or none": """
        select 1; select 2
        select 1; drop table run
        select 1;; select 2
        ;
        --
        /* nothing */
        select 1 /* and */ ; -- more
          delete from run
        select
        select 1 from
        selec 1
        'select 1'
        .read FOLDER/file.txt
        .shell ls
        \\copy run to 'x'
        select $1
        select ?
        select :name
        select 1 \udcff
    """,
}
"""One attack a line, but for the last group, whose lines that begin with more space go on with the line before."""
READING = """
    show tables
    describe run
    summarize metric
    explain select * from run
    from run limit 1
    table meta
    values (1, 2)
    select 1;
    select 1 -- a comment; with a semicolon
    select ';' as a, '--' as b
    pragma table_info('run')
    pivot run on seed using count(*) group by task
    select * from query('select 1')
    select * from query_table('run')
    select 'drop table run' as harmless
    with recursive t(n) as (values (1) union all select n + 1 from t where n < 5) from t
    from test_all_types()
    select 'nan'::double, 'inf'::double, -0.0, null
    select 'infinity'::timestamp, '-290000-01-01'::date, '24:00:00'::time, interval 3 months, now()
    select '\\xAA\\x00'::blob, '101'::bit, uuid(), chr(0), chr(27) || '[31m' as "\x1b[31m"
    select map {'a': 1}, {'a': {'b': [1, null]}}, [1.5, 'nan'::double], union_value(a := 1), map {[1]: 'nan'::double}
    select 170141183460469231731687303715884105727::hugeint, 1.5::decimal(38, 37)
    select '=cmd()' as a, '@x' as "+b"
    select 1 as a, 2 as a
    select 1 where false
    select cast(now() as varchar), '00:00:00+15:59:59'::timetz
    select repeat('x', 100000) as wide
"""


def lines(text):
    statements = []
    for line in text.strip("\n").splitlines():
        if line.startswith(" " * 10):
            statements[-1] += "\n" + line
        elif line.strip():
            statements.append(line.strip())
    return statements


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A results folder with a run, and beside it files that a query must not see."""
    folder = tmp_path_factory.mktemp("sql")
    (folder / "file.txt").write_text(CONTENT)
    (folder / "file.csv").write_text(f"a,b\n1,{CONTENT}\n")
    fabricated.concluded(folder / "results")
    assert bench_here(folder / "results", "ingest")[0] == 0
    return folder


@pytest.fixture
def unchanged(folder, monkeypatch):
    """Afterwards every file is what it was, and there are no others."""

    def files():
        paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "results.settled.json")
        return {path: path.read_bytes() for path in paths}

    monkeypatch.chdir(folder)
    before = files()
    yield
    assert files() == before


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("group", ATTACKS)
def test_an_attack_is_refused_and_changes_nothing(folder, group):
    store = Store(folder / "results")
    for query in lines(ATTACKS[group]):
        with pytest.raises(UsageError) as refusal:
            pytest.fail(f"{query}: {store.table(query.replace('FOLDER', str(folder)))}")
        assert CONTENT not in str(refusal.value)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("group", ATTACKS)
def test_where_there_is_no_database_attacks_are_refused_too(tmp_path, folder, group):
    store = Store(tmp_path / "nowhere")
    # `explain analyze insert` fills the copy in memory, which ends with the command
    for query in [line for line in lines(ATTACKS[group])[::3] if "explain analyze insert" not in line]:
        with pytest.raises(UsageError):
            pytest.fail(f"{query}: {store.table(query.replace('FOLDER', str(folder)))}")
    assert not store.results.exists()


@pytest.mark.usefixtures("unchanged")
def test_an_attack_on_the_command_line_ends_with_2(folder):
    for group in ATTACKS.values():
        query = lines(group)[0].replace("FOLDER", str(folder))
        code, out, err = bench_here(folder / "results", "sql", query)
        assert (code, out) == (2, ""), query
        assert err.startswith("bench: ")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_what_reads_is_answered_in_every_form(folder, form):
    for query in lines(READING):
        code, out, err = bench_here(folder / "results", "sql", query, *form)
        assert (code, err) == (0, ""), (query, err)
        assert control(out) == [], query
        if form == ["--json"]:
            assert isinstance(json.loads(out, parse_constant=pytest.fail), list)


@pytest.mark.parametrize(
    "words_of_a_query", ["corrupt checksum", "permission denied", "No space left on device", "Could not set lock PID 1"]
)
def test_words_of_a_query_are_not_taken_for_trouble_with_the_file(folder, words_of_a_query):
    with pytest.raises(UsageError, match="the query failed"):
        Store(folder / "results").table(f"select cast('{words_of_a_query}' as int)")


@pytest.mark.usefixtures("unchanged")
def test_a_query_without_end_is_ended_by_ctrl_c(folder):
    query = "select count(*) from range(100000000000) a, range(10) b where a.range * b.range % 7 = 3"
    command = bench_words("--results", str(folder / "results"), "sql", query)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while _seconds_of_work(process.pid) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "")
    assert err == "bench: interrupted; repeat the command to resume\n"


def _seconds_of_work(pid):
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
