-- Format 2: numbers of plans that have ended, by the minute. "tw." stands for the schema of the store.
-- Each writer counts in rows of its own, so that no writer waits for another one. Names have any
-- length, and entries of an index have not: a digest stands for name, result and duration.
CREATE TABLE tw.tallies (
    minute bigint NOT NULL,
    writer bigint NOT NULL,
    digest bytea NOT NULL,
    name text NOT NULL,
    result text NOT NULL,
    took integer NOT NULL,
    plans bigint NOT NULL,
    PRIMARY KEY (minute, writer, digest)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 1000);

-- How long they are kept, in microseconds.
CREATE FUNCTION tw.kept_2() RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$ SELECT 93600000000 $$;

-- The class of a duration: how many limits are below it, in milliseconds; -1 if it never began.
CREATE FUNCTION tw.took_2(started bigint, ended bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(width_bucket((ended - started) / 1000 - 1,
        ARRAY[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000, 120000,
            300000, 600000, 1800000, 3600000]::bigint[]), -1)
$$;

CREATE FUNCTION tw.tally_2(name text, result text, took integer) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT sha256(convert_to(took || ' ' || result || ' ' || name, 'UTF8'))
$$;

-- Those of the plans that are there, as if no writer had counted them.
INSERT INTO tw.tallies (minute, writer, digest, name, result, took, plans)
    SELECT minute, 0, tw.tally_2(name, result, took), name, result, took, count(*) FROM (
        SELECT ended_at - ended_at % 60000000 AS minute,
            CASE label WHEN '' THEN action ELSE label END AS name, result,
            tw.took_2(started_at, ended_at) AS took
        FROM tw.plans
        WHERE state = 'stopped'
            AND ended_at >= extract(epoch FROM now())::bigint * 1000000 - tw.kept_2()
    ) over GROUP BY minute, name, result, took;

-- Rows of plans that are brought up to date, as before, and the numbers of those that have ended.
CREATE OR REPLACE FUNCTION tw.rows_1(
    w bigint, s bigint, held integer[], mark bigint,
    r_at integer[], r_epoch bigint[], r_refresh boolean[], r_id uuid[], r_head bigint[],
    r_state text[], r_result text[], r_label text[], r_action text[], r_by text[], r_labels text[],
    r_created bigint[], r_started bigint[], r_ended bigint[], r_wakes bigint[], r_busy boolean[],
    r_caller uuid[], r_step bigint[], r_waits text[], r_waits_for text[], r_seq bigint[],
    r_snapshot bytea[],
    l_row integer[], l_name text[], l_value text[],
    v_row integer[], v_id bytea[], v_bytes bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    epochs bigint[];
    kept integer[];
    relabelled integer[];
    newest bigint;
BEGIN
    PERFORM tw.enter_1(w, s);
    SELECT h.epochs INTO epochs FROM tw.hold_1(held) h;
    SELECT array_agg(r.ord) INTO kept
        FROM unnest(r_at, r_epoch, r_refresh, r_id) WITH ORDINALITY AS r (at, epoch, refresh, id, ord)
        WHERE epochs[r.at] = r.epoch
            AND (NOT r.refresh OR EXISTS (SELECT FROM tw.plans p WHERE p.id = r.id));
    UPDATE tw.writers x SET projected = mark WHERE x.number = w AND x.projected < mark;
    IF kept IS NULL THEN RETURN; END IF;

    SELECT array_agg(r.ord) INTO relabelled
        FROM unnest(r_id, r_labels) WITH ORDINALITY AS r (id, labels, ord)
        LEFT JOIN tw.plans p ON p.id = r.id
        WHERE r.ord = ANY (kept) AND coalesce(p.labels, '{}') <> r.labels;
    IF relabelled IS NOT NULL THEN
        DELETE FROM tw.labels x USING unnest(relabelled) u (i) WHERE x.plan = r_id[u.i];
        INSERT INTO tw.labels (plan, name, value)
            SELECT r_id[l.row], l.name, l.value FROM unnest(l_row, l_name, l_value) l (row, name, value)
            WHERE l.row = ANY (relabelled) ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(v_row) > 0 THEN
        INSERT INTO tw.large_values (plan, id, bytes)
            SELECT r_id[v.row], v.id, v.bytes FROM unnest(v_row, v_id, v_bytes) v (row, id, bytes)
            WHERE v.row = ANY (kept) ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO tw.snapshots AS x (plan, seq, bytes)
        SELECT r.id, r.seq, r.bytes
        FROM unnest(r_id, r_seq, r_snapshot) WITH ORDINALITY AS r (id, seq, bytes, ord)
        WHERE r.seq IS NOT NULL AND r.ord = ANY (kept)
        ON CONFLICT (plan) DO UPDATE SET seq = excluded.seq, bytes = excluded.bytes;
    WITH fresh AS (
        SELECT r.* FROM unnest(r_id, r_head, r_state, r_result, r_label, r_action, r_by, r_labels,
            r_created, r_started, r_ended, r_wakes, r_busy, r_caller, r_step, r_waits, r_waits_for)
            WITH ORDINALITY AS r (id, head, state, result, label, action, by, labels, created,
            started, ended, wakes, busy, caller, step, waits, waits_for, ord)
        WHERE r.ord = ANY (kept)
    ), before AS (
        SELECT p.state, p.result, p.waits FROM fresh JOIN tw.plans p USING (id)
    ), over AS (
        -- Rows of a plan that is over are written again, with a snapshot say.
        SELECT f.ended - f.ended % 60000000 AS minute,
            CASE f.label WHEN '' THEN f.action ELSE f.label END AS name, f.result,
            tw.took_2(f.started, f.ended) AS took
        FROM fresh f LEFT JOIN tw.plans p USING (id)
        WHERE f.state = 'stopped' AND f.ended IS NOT NULL AND p.state IS DISTINCT FROM 'stopped'
    ), tallied AS (
        INSERT INTO tw.tallies AS x (minute, writer, digest, name, result, took, plans)
        SELECT minute, w, tw.tally_2(name, result, took), name, result, took, count(*)
        FROM over GROUP BY minute, name, result, took
        ON CONFLICT (minute, writer, digest) DO UPDATE SET plans = x.plans + excluded.plans
    ), written AS (
        INSERT INTO tw.plans AS p (id, head, state, result, label, action, by, labels, created_at,
            started_at, ended_at, wakes_at, is_busy, caller_plan, caller_step, waits, waits_for)
        SELECT id, head, state, result, label, action, by, labels, created, started, ended, wakes,
            busy, caller, step, waits, waits_for FROM fresh
        ON CONFLICT (id) DO UPDATE SET head = excluded.head, state = excluded.state,
            result = excluded.result, label = excluded.label, labels = excluded.labels,
            started_at = excluded.started_at, ended_at = excluded.ended_at,
            wakes_at = excluded.wakes_at, is_busy = excluded.is_busy, waits = excluded.waits,
            waits_for = excluded.waits_for
    ), moved AS (
        SELECT state, result, waits, 1 AS one FROM fresh
        UNION ALL SELECT state, result, waits, -1 FROM before
    )
    INSERT INTO tw.counts AS x (writer, state, result, waits, plans)
        SELECT w, state, result, waits, sum(one) FROM moved GROUP BY 2, 3, 4 HAVING sum(one) <> 0
        ON CONFLICT (writer, state, result, waits) DO UPDATE SET plans = x.plans + excluded.plans;
    -- What is older than is kept goes; what another writer removes at this moment is left to it.
    SELECT max(u.ended) INTO newest FROM unnest(r_state, r_ended) u (state, ended)
        WHERE u.state = 'stopped';
    IF newest IS NOT NULL THEN
        DELETE FROM tw.tallies x USING (
            SELECT minute, writer, digest FROM tw.tallies WHERE minute < newest - tw.kept_2()
            ORDER BY minute LIMIT 1000 FOR UPDATE SKIP LOCKED) o
            WHERE x.minute = o.minute AND x.writer = o.writer AND x.digest = o.digest;
    END IF;
END $$;

UPDATE tw.meta SET value = 2 WHERE name = 'version';
