-- The store: an index over the ledger (runs/ on disk), rebuilt from it at will. The data dictionary in
-- docs/data-dictionary.md is generated from this file: the comment above an object and the one beside a column are
-- its entries there.
--
-- Append only. A change is a new section "migration N: why", never an edit of an older one; a new database gets all
-- sections, an older one those that it lacks, and one from a newer bench is refused. No foreign keys, and no index
-- but the keys that inserts need: both make bulk inserts slow. Times are UTC. NULL is "does not exist"; no NaN.

-- migration 1: the first schema

-- What the database says about itself.
create table meta (
    key varchar primary key, -- schema_version
    value varchar not null -- as text
);

-- One row a machine, with its versions and code: the environment.json of attempts.
create table environment (
    environment varchar primary key, -- SHA-256 of the rest of environment.json
    bench varchar, -- version of sgmcmc-bench
    python varchar, -- version of Python
    platform varchar, -- operating system, its version, and the processor's architecture
    cpu varchar, -- model of the processor
    cores bigint, -- processor cores that the process may use
    gpu varchar, -- model of the accelerator that the run was on; NULL on a CPU
    torch varchar, -- version of torch, with its build
    device varchar, -- device that the run was on: cpu, cuda:0
    threads bigint, -- threads of torch within one operation
    deterministic boolean, -- whether torch was held to deterministic algorithms
    document varchar not null -- all of environment.json, packages and flags included, as JSON
);

-- One row for each distribution whose code an environment ran: the harness and the plugins.
create table plugin (
    environment varchar not null, -- environment that it was in
    distribution varchar not null, -- name of the distribution
    version varchar, -- its version; NULL for a one-off file
    git_commit varchar, -- commit of the checkout that it was installed from; NULL where there is none
    dirty boolean, -- whether its source differed from that commit
    primary key (environment, distribution)
);

-- One row for each version of a task that runs used.
create table task_version (
    task varchar not null, -- name of the task
    version bigint not null, -- raised when the meaning of the task or of its numbers changes
    source varchar not null, -- SHA-256 of the task's source
    data varchar not null, -- checksum of its data files; empty where it reads none
    primary key (task, version, source, data)
);

-- One row a run key: what was asked for. Where attempts recorded it differently, the latest attempt's record.
create table run (
    run_key varchar primary key, -- SHA-256 of all that changes the result and of nothing else
    group_key varchar not null, -- the same without the seed: runs to average over
    key_version bigint not null, -- version of the rule that makes run keys
    engine bigint not null, -- raised when the arithmetic of the harness changes
    method varchar not null, -- method, or sampler, as asked for
    task varchar not null, -- name of the task
    task_version bigint not null, -- version of the task
    protocol varchar not null, -- protocol of the task
    budget varchar not null, -- label of the budget: smoke, quick, paper, steps=N
    steps bigint not null, -- steps of each chain
    burn_in bigint not null, -- steps dropped at the start
    thin bigint not null, -- every thin-th draw is kept
    seed bigint not null, -- seed of the run
    chains bigint not null, -- chains of the run
    sampler varchar not null, -- name of the sampler
    sampler_source varchar not null, -- SHA-256 of its source
    sampler_params varchar not null, -- its hyperparameters, as JSON
    schedule varchar not null, -- name of the schedule
    schedule_source varchar not null, -- SHA-256 of its source
    schedule_params varchar not null, -- its hyperparameters, as JSON
    task_source varchar not null, -- SHA-256 of the task's source
    task_params varchar not null, -- the task's settings, as JSON
    task_data varchar not null, -- checksum of the task's data files; empty where it reads none
    dtype varchar not null, -- floating-point type of the chains
    deterministic boolean not null, -- whether deterministic algorithms were asked for
    compile varchar not null, -- how steps are executed
    origins varchar not null, -- setting -> value, provenance and source, as JSON
    recorded_by varchar not null -- attempt whose spec.json this row is
);

-- One row an attempt at a run. Nothing is dropped: a failed attempt is a row with its reason.
create table attempt (
    attempt varchar primary key, -- time of its start and a random part; sorts by time
    run_key varchar not null, -- run that it is an attempt at
    status varchar not null, -- done, diverged, error, out_of_memory, timeout; unfinished: running, cancelled, preempted, device_lost, disk_full, orphaned
    concluded boolean not null, -- whether there is a result.json: its status will not change any more
    reason varchar, -- why it failed, or the last error or warning
    step bigint, -- step, counted from 1, where a chain became non-finite
    chain bigint, -- that chain, counted from 0
    started timestamp, -- start, UTC
    finished timestamp, -- end, UTC; NULL while unfinished
    seconds_sampling double, -- wall seconds in steps
    seconds_observing double, -- wall seconds in observers
    seconds_checkpoint double, -- wall seconds in checkpoints
    seconds_setup double, -- wall seconds in preparation and compilation
    steps_done bigint, -- steps of each chain
    passes double, -- gradient evaluations of a chain, in passes through the data; all included
    passes_per_step double, -- the same for a step
    draws_kept bigint, -- draws of a chain after burn-in and thinning: what the metrics saw
    draws_stored bigint, -- draws of a chain in draws.safetensors
    draws_stride bigint, -- every draws_stride-th kept draw is stored; 0: none
    environment varchar, -- environment that it ran in
    path varchar not null -- its directory, below the results folder
);

-- One row a metric of an attempt.
create table metric (
    attempt varchar not null, -- attempt that it is of
    name varchar not null, -- name of the metric
    value double check (not isnan(value)), -- NULL where it does not exist
    version bigint not null, -- raised when the meaning of the metric changes
    unit varchar not null, -- unit of the value
    direction varchar not null, -- max, min, or target: where better is
    target double, -- best value, where direction is target
    is_primary boolean not null -- whether it is the task's primary metric
);

-- One row a point of a curve.
create table curve (
    attempt varchar not null, -- attempt that it is of
    name varchar not null, -- name of the curve
    chain bigint not null, -- chain, counted from 0; 0 also where the curve is of the run as a whole
    i bigint not null, -- number of the point along the curve, counted from 0
    x double, -- abscissa
    y double -- ordinate; NULL where it does not exist
);

-- One row a file that a concluded attempt left.
create table artifact (
    attempt varchar not null, -- attempt that it is of
    file varchar not null, -- name within the attempt's directory
    sha256 varchar not null, -- checksum of its content when it was written
    bytes bigint -- size; NULL where the file is gone
);

-- One row a line of events.jsonl.
create table event (
    attempt varchar not null, -- attempt that it is of
    i bigint not null, -- number of the line, counted from 0
    time timestamp not null, -- when, UTC
    event varchar not null, -- created, started, resumed, checkpoint, warning, diverged, cancelled, preempted, device_lost, disk_full, took over, finished, failed
    detail varchar not null -- the other fields, as JSON
);

-- One row a paper whose settings, values and claims are known.
create table paper (
    paper varchar primary key, -- identifier
    title varchar not null, -- title
    citation varchar not null, -- citation
    sha256 varchar not null -- checksum of the TOML file: what is read again when it changes
);

-- One row a number printed in a paper.
create table reported_value (
    paper varchar not null, -- paper that printed it
    i bigint not null, -- number within the paper's file, counted from 0
    table_label varchar not null, -- table or figure
    row_label varchar not null, -- row, as printed
    column_label varchar not null, -- column, as printed
    method varchar, -- method that it is of, corrected where `correction` says so
    task varchar, -- task that it is of
    protocol varchar, -- protocol of that task
    chains bigint, -- chains of a run
    metric varchar, -- metric of that task
    value double, -- the number
    error double, -- the number after +-
    error_kind varchar, -- what that is: sd, se, unknown
    n bigint, -- repetitions behind it
    printed_as varchar, -- label that the paper printed, where it was corrected
    correction varchar, -- what was corrected
    evidence varchar, -- why
    notes varchar -- anything else
);

-- One row a claim of a paper: an ordering of two methods.
create table claim (
    paper varchar not null, -- paper that makes it
    i bigint not null, -- number within the paper's file, counted from 0
    table_label varchar, -- table or figure: the family within which it is tested
    statement varchar, -- in words
    better varchar, -- method that is said to be better
    worse varchar, -- method that is said to be worse
    task varchar, -- task that it is about
    protocol varchar, -- protocol of that task
    metric varchar, -- metric of that task
    document varchar not null -- the whole record, as JSON
);

-- One row a run with a concluded attempt: the latest that is done or diverged, else the latest that failed.
-- Columns of run and attempt.
create view result as
select run.*, attempt.* exclude (run_key)
from run join attempt on attempt.run_key = run.run_key
where attempt.concluded
qualify row_number() over (
    partition by run.run_key order by status in ('done', 'diverged') desc, attempt.attempt desc
) = 1;

-- One row a run: where it stands now, by the latest attempt that is done or diverged, else by the latest.
-- Columns of run and attempt.
create view run_status as
select run.*, attempt.* exclude (run_key)
from run join attempt on attempt.run_key = run.run_key
qualify row_number() over (
    partition by run.run_key order by status in ('done', 'diverged') desc, attempt.attempt desc
) = 1;

-- One row a metric of a run, from the attempt in `result`. Columns of result, and those of metric under these names.
create view run_metric as
select
    result.*,
    metric.name as metric, -- name of the metric
    metric.value as value, -- NULL where it does not exist
    metric.version as metric_version, -- version of the metric
    metric.unit as unit, -- unit of the value
    metric.direction as direction, -- max, min, or target: where better is
    metric.target as target, -- best value, where direction is target
    metric.is_primary as is_primary -- whether it is the task's primary metric
from result join metric on metric.attempt = result.attempt;

-- migration 2: printed cells say what stands in the way of reproducing them, claims what is compared and how; papers are
-- read again

delete from paper;
drop table reported_value;
drop table claim;

-- One row a number printed in a paper.
create table reported_value (
    paper varchar not null, -- paper that printed it
    i bigint not null, -- number within the paper's file, counted from 0
    table_label varchar not null, -- table, figure or section
    row_label varchar not null, -- row, as printed
    column_label varchar not null, -- column, as printed
    method varchar, -- method that it is of, corrected where `correction` says so
    task varchar, -- task that it is of
    protocol varchar, -- protocol of that task
    chains bigint, -- chains of a run
    metric varchar, -- metric of that task
    direction varchar, -- max, min, or target: where better is
    value double, -- the number
    error double, -- the number after +-
    error_kind varchar, -- what that is: sd, se, unknown
    n bigint, -- repetitions behind it
    printed_as varchar, -- label that the paper printed, where it was corrected
    correction varchar, -- what was corrected
    evidence varchar, -- why
    uncertain varchar, -- why it is not certain that this is what was printed
    obstacle varchar, -- why it cannot be reproduced as published, whatever is run
    needs varchar, -- what a run needs beyond a CPU: a GPU, data
    cause varchar, -- why ours differs, as far as it is known
    notes varchar -- anything else
);

-- One row a claim of a paper: an ordering of two methods, their equality, or how often one of them succeeds.
create table claim (
    paper varchar not null, -- paper that makes it
    i bigint not null, -- number within the paper's file, counted from 0
    table_label varchar, -- table, figure or section: the family within which it is tested
    statement varchar, -- in words
    kind varchar, -- ordering (also where NULL), equality, share
    better varchar, -- method that is said to be better, or that is spoken of
    worse varchar, -- method that is said to be worse, or equal
    task varchar, -- task that it is about
    protocol varchar, -- protocol of that task
    chains bigint, -- chains of a run
    worse_protocol varchar, -- protocol of the worse one, where it is another
    worse_chains bigint, -- chains of a run of the worse one, where they are others
    metric varchar, -- metric of that task
    direction varchar, -- max or min: which is better
    share bigint, -- successes that were printed, of `trials`
    trials bigint, -- trials behind them
    margin double, -- difference that still counts as equal, of an equality as a share of the larger
    obstacle varchar, -- why it cannot be tested as published, whatever is run
    needs varchar, -- what testing it needs beyond a CPU
    cause varchar, -- why ours differs, as far as it is known
    notes varchar, -- anything else
    document varchar not null -- the whole record, as JSON
);

-- migration 3: how a run was executed, the device and what only a GPU has; all runs so far were on a CPU

alter table run add column execution varchar default '{"device":"cpu"}'; -- device, and settings of it, as JSON

-- One row a run with a concluded attempt: the latest that is done or diverged, else the latest that failed.
-- Columns of run and attempt.
create or replace view result as
select run.*, attempt.* exclude (run_key)
from run join attempt on attempt.run_key = run.run_key
where attempt.concluded
qualify row_number() over (
    partition by run.run_key order by status in ('done', 'diverged') desc, attempt.attempt desc
) = 1;

-- One row a run: where it stands now, by the latest attempt that is done or diverged, else by the latest.
-- Columns of run and attempt.
create or replace view run_status as
select run.*, attempt.* exclude (run_key)
from run join attempt on attempt.run_key = run.run_key
qualify row_number() over (
    partition by run.run_key order by status in ('done', 'diverged') desc, attempt.attempt desc
) = 1;

-- One row a metric of a run, from the attempt in `result`. Columns of result, and those of metric under these names.
create or replace view run_metric as
select
    result.*,
    metric.name as metric, -- name of the metric
    metric.value as value, -- NULL where it does not exist
    metric.version as metric_version, -- version of the metric
    metric.unit as unit, -- unit of the value
    metric.direction as direction, -- max, min, or target: where better is
    metric.target as target, -- best value, where direction is target
    metric.is_primary as is_primary -- whether it is the task's primary metric
from result join metric on metric.attempt = result.attempt;

-- migration 4: what the papers' runs rest on, by who chose it; papers are read again

delete from paper;

-- One row a choice that the runs of a paper's protocol rest on: a setting of one method, or what no setting carries.
create table choice (
    paper varchar not null, -- paper whose runs rest on it
    method varchar, -- method that it is of; NULL: of all
    task varchar not null, -- task that it is of
    protocol varchar not null, -- protocol of that task
    name varchar not null, -- dotted name of a setting, or what is chosen, in words
    value varchar not null, -- what was chosen
    provenance varchar not null, -- paper, code (the authors'), inferred (from either), ours
    source varchar -- where it stands, or why it is as it is
);

-- migration 5: a curve is one row; with a row for each point, most of an ingest was spent on them

-- One row a curve of an attempt. The view `curve` has a row for each point.
create table curve_points (
    attempt varchar not null, -- attempt that it is of
    name varchar not null, -- name of the curve
    x double[] not null, -- abscissas
    y double[] not null -- ordinates of chain 0, then those of chain 1 and so on; NULL where one does not exist
);

insert into curve_points
select attempt, name, list(x order by i) filter (chain = 0), list(y order by chain, i) from curve group by all;

drop table curve;

-- One row a point of a curve.
create view curve as
select
    points.attempt as attempt, -- attempt that it is of
    points.name as name, -- name of the curve
    points.chain as chain, -- chain, counted from 0; 0 also where the curve is of the run as a whole
    points.i as i, -- number of the point along the curve, counted from 0
    points.x as x, -- abscissa
    points.y as y -- ordinate; NULL where it does not exist
from (
    select attempt, name, place // len(x) as chain, place % len(x) as i, x[place % len(x) + 1] as x, y[place + 1] as y
    from (select *, unnest(range(len(y))) as place from curve_points)
) points;
