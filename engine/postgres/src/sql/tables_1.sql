-- Format 1: the tables. "tw." stands for the schema of the store.
CREATE TABLE tw.meta (name text PRIMARY KEY, value bigint NOT NULL);
INSERT INTO tw.meta VALUES ('version', 1), ('slots', 1024), ('writer', 0), ('worlds', 0);

CREATE SEQUENCE tw.place;
CREATE SEQUENCE tw.reminder_version;

-- (slot, epoch) is a unique key, so that FOR KEY SHARE waits for a change of epoch and for nothing else.
CREATE TABLE tw.slots (
    slot integer PRIMARY KEY,
    owner bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    UNIQUE (slot, epoch)
) WITH (fillfactor = 50);
INSERT INTO tw.slots (slot) SELECT generate_series(0, 1023);

CREATE TABLE tw.worlds (
    number bigint PRIMARY KEY,
    name text NOT NULL,
    kind text NOT NULL,
    since bigint NOT NULL,
    meta text NOT NULL,
    claims text NOT NULL
);

-- Renewed once a quarter of a lease by each node: no commit of a plan reads or locks them.
CREATE TABLE tw.leases (world bigint PRIMARY KEY, ends timestamptz NOT NULL) WITH (fillfactor = 10);

-- Requests between nodes, and their answers: read by the node of their world, and gone with it.
CREATE TABLE tw.mail (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    world bigint NOT NULL REFERENCES tw.worlds ON DELETE CASCADE,
    bytes bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX mail_world ON tw.mail (world, id);

-- The process that has the store for itself, with how it can be reached.
CREATE TABLE tw.holder (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    instance uuid NOT NULL,
    said text NOT NULL,
    ends timestamptz NOT NULL
) WITH (fillfactor = 10);

-- Written at every commit that brings rows up to date: updates stay in their page.
CREATE TABLE tw.writers (
    number bigint PRIMARY KEY,
    session bigint NOT NULL DEFAULT 0,
    projected bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);

-- Appended, never changed.
CREATE TABLE tw.journal (
    seq bigint PRIMARY KEY,
    plan uuid NOT NULL,
    prev bigint NOT NULL,
    epoch bigint NOT NULL,
    records bytea NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX journal_plan ON tw.journal (plan, seq);

CREATE TABLE tw.plans (
    id uuid PRIMARY KEY,
    head bigint NOT NULL,
    state text NOT NULL,
    result text NOT NULL,
    label text NOT NULL,
    action text NOT NULL,
    by text NOT NULL,
    labels text NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    ended_at bigint,
    wakes_at bigint,
    is_busy boolean NOT NULL,
    caller_plan uuid,
    caller_step bigint,
    waits text NOT NULL,
    waits_for text NOT NULL,
    -- The last ten bits of the id.
    slot integer GENERATED ALWAYS AS (
        (get_byte(uuid_send(id), 14) & 3) << 8 | get_byte(uuid_send(id), 15)) STORED
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX plans_busy ON tw.plans (id) WHERE is_busy;
CREATE INDEX plans_wake ON tw.plans (slot, wakes_at, id) WHERE wakes_at IS NOT NULL;
CREATE INDEX plans_state ON tw.plans (state, id);
CREATE INDEX plans_caller ON tw.plans (caller_plan, id) WHERE caller_plan IS NOT NULL;

CREATE TABLE tw.snapshots (plan uuid PRIMARY KEY, seq bigint NOT NULL, bytes bytea NOT NULL)
    WITH (fillfactor = 80);

CREATE TABLE tw.large_values (
    plan uuid NOT NULL,
    id bytea NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (plan, id)
);

CREATE TABLE tw.labels (
    plan uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (plan, name)
);
CREATE INDEX labels_value ON tw.labels (name, value, plan);

-- Each writer counts in rows of its own, so that no writer waits for another one.
CREATE TABLE tw.counts (
    writer bigint NOT NULL,
    state text NOT NULL,
    result text NOT NULL,
    waits text NOT NULL,
    plans bigint NOT NULL,
    PRIMARY KEY (writer, state, result, waits)
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);

-- Keys of any length are found by their SHA-256: an index takes no more than 2,704 bytes.
CREATE TABLE tw.keys (digest bytea PRIMARY KEY, plan uuid NOT NULL, key text NOT NULL);
CREATE INDEX keys_plan ON tw.keys (plan);
CREATE TABLE tw.locks (digest bytea PRIMARY KEY, plan uuid NOT NULL, name text NOT NULL);
CREATE TABLE tw.followers (plan uuid NOT NULL, follower uuid NOT NULL, PRIMARY KEY (plan, follower));

CREATE TABLE tw.schedules (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    data bytea NOT NULL
);

CREATE TABLE tw.states (
    digest bytea PRIMARY KEY,
    entity text NOT NULL,
    key text COLLATE "C" NOT NULL,
    bytes bytea,
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    due bigint
) WITH (fillfactor = 80);
CREATE INDEX states_due ON tw.states (entity, due, key) WHERE due IS NOT NULL;
-- Keys have any length, and entries of an index have not.
CREATE INDEX states_by_key ON tw.states (entity, left(key, 200));
CREATE INDEX states_of_plan ON tw.states (left(key, 37)) WHERE entity = 'turnwheel.of-plan';

CREATE TABLE tw.reminders (
    digest bytea PRIMARY KEY,
    of_digest bytea NOT NULL,
    entity text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    first_due bigint NOT NULL,
    delay bigint,
    period bigint,
    missed text NOT NULL,
    planned bigint NOT NULL,
    due bigint NOT NULL,
    failures bigint NOT NULL,
    skipped bigint NOT NULL,
    revision bigint NOT NULL,
    version bigint NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX reminders_due ON tw.reminders (due);
CREATE INDEX reminders_of ON tw.reminders (of_digest, due);
CREATE TABLE tw.reminder_epochs (of_digest bytea PRIMARY KEY, epoch bigint NOT NULL);
