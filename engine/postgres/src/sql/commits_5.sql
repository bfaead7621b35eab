-- Format 5: states and keys of a commit are written together, not one by one. "tw." stands for the schema of
-- the store. Values and answers of tw.commit_1 and tw.rows_1 are as in the formats before, so processes of the release
-- before call them too. Only their newest text is kept.

-- Codes: 0 written, 1 key taken, 2 lock taken, 3 moved, 4 changed, 5 conflict, 6 outdated,
-- 7 unsupported. places are those of the written appends, in their order; the other answers have
-- an element for each append and then for each change, or are null if everything was written.
--
-- Rows are looked up by their index, whatever the statistics of a table that was empty say: a plan of a
-- statement is kept for as long as the connection.
CREATE OR REPLACE FUNCTION tw.commit_1(
    w bigint, s bigint, held integer[],
    a_plan uuid[], a_at integer[], a_epoch bigint[], a_prev bigint[], a_records bytea[],
    o_append integer[], o_kind integer[], o_digest bytea[], o_text text[], o_plan uuid[],
    v_append integer[], v_id bytea[], v_bytes bytea[],
    c_kind integer[], c_at integer[], c_hold bigint[], c_expected bigint[], c_epoch bigint[],
    c_digest bytea[], c_of bytea[], c_texts text[], c_bytes bytea[], c_numbers bigint[],
    OUT codes integer[], OUT places bigint[], OUT numbers bigint[], OUT newer bigint[],
    OUT plans uuid[], OUT names text[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    owners bigint[];
    epochs bigint[];
    count integer := cardinality(a_plan);
    own uuid;
    holder uuid;
    now_append integer := 0;
    undo_key bytea;
    undo_locks bytea[];
    made bytea[];
    o record;
    c record;
    d record;
    i integer;
BEGIN
    PERFORM tw.enter_1(w, s);
    SELECT h.owners, h.epochs INTO owners, epochs FROM tw.hold_1(held) h;
    codes := ARRAY[]::integer[];
    places := ARRAY[]::bigint[];
    IF count > 0 THEN
        SELECT array_agg(CASE WHEN epochs[a.at] = a.epoch THEN 0 ELSE 3 END ORDER BY a.ord)
            INTO codes FROM unnest(a_at, a_epoch) WITH ORDINALITY AS a (at, epoch, ord);
    END IF;
    IF cardinality(o_append) > 0 OR cardinality(c_kind) > 0 OR 3 = ANY (codes) THEN
        i := count + cardinality(c_kind);
        numbers := array_fill(0::bigint, ARRAY[i]);
        newer := array_fill(0::bigint, ARRAY[i]);
        plans := array_fill(NULL::uuid, ARRAY[i]);
        names := array_fill(NULL::text, ARRAY[i]);
        FOR i IN 1 .. count LOOP
            IF codes[i] = 3 THEN
                numbers[i] := owners[a_at[i]];
                newer[i] := epochs[a_at[i]];
            END IF;
        END LOOP;
    END IF;

    -- Orders of entries: 1 key, 2 take, 3 release, 4 follow, 5 unfollow. Keys alone are taken
    -- together: of two entries with the same one the first has it.
    IF cardinality(o_kind) > 0 AND 1 = ALL (o_kind) THEN
        WITH taken AS (
            INSERT INTO tw.keys (digest, plan, key)
                SELECT u.digest, a_plan[u.append], u.text
                FROM unnest(o_append, o_digest, o_text) WITH ORDINALITY u (append, digest, text, ord)
                WHERE codes[u.append] = 0 ORDER BY u.digest, u.ord
                ON CONFLICT DO NOTHING RETURNING digest
        )
        SELECT array_agg(digest) INTO made FROM taken;
        SELECT count(*) INTO i FROM unnest(o_append) u (append) WHERE codes[u.append] = 0;
        IF i > coalesce(cardinality(made), 0) THEN
            FOR o IN SELECT u.append, u.digest, k.plan
                FROM unnest(o_append, o_digest) u (append, digest)
                LEFT JOIN tw.keys k ON k.digest = u.digest WHERE codes[u.append] = 0
            LOOP
                IF o.plan IS NULL THEN
                    RAISE EXCEPTION 'a key has gone at this moment' USING ERRCODE = 'serialization_failure';
                ELSIF o.plan <> a_plan[o.append] OR NOT coalesce(o.digest = ANY (made), false) THEN
                    codes[o.append] := 1;
                    plans[o.append] := o.plan;
                END IF;
            END LOOP;
        END IF;
        o_append := ARRAY[]::integer[];
    END IF;
    FOR o IN SELECT * FROM unnest(o_append, o_kind, o_digest, o_text, o_plan)
        AS u (append, kind, digest, text, plan) WHERE u.append IS NOT NULL
    LOOP
        CONTINUE WHEN codes[o.append] <> 0;
        IF o.append <> now_append THEN
            now_append := o.append;
            undo_key := NULL;
            undo_locks := ARRAY[]::bytea[];
        END IF;
        own := a_plan[o.append];
        IF o.kind = 1 THEN
            INSERT INTO tw.keys (digest, plan, key) VALUES (o.digest, own, o.text)
                ON CONFLICT DO NOTHING;
            IF FOUND THEN
                undo_key := o.digest;
            ELSE
                SELECT k.plan INTO STRICT holder FROM tw.keys k WHERE k.digest = o.digest;
                codes[o.append] := 1;
                plans[o.append] := holder;
            END IF;
        ELSIF o.kind = 2 THEN
            INSERT INTO tw.locks (digest, plan, name) VALUES (o.digest, own, o.text)
                ON CONFLICT DO NOTHING;
            IF FOUND THEN
                undo_locks := undo_locks || o.digest;
            ELSE
                SELECT l.plan INTO STRICT holder FROM tw.locks l WHERE l.digest = o.digest;
                IF holder <> own THEN
                    codes[o.append] := 2;
                    plans[o.append] := holder;
                    names[o.append] := o.text;
                    DELETE FROM tw.keys k WHERE k.digest = undo_key;
                    DELETE FROM tw.locks l WHERE l.digest = ANY (undo_locks);
                END IF;
            END IF;
        ELSIF o.kind = 3 THEN
            DELETE FROM tw.locks l WHERE l.digest = o.digest AND l.plan = own;
        ELSIF o.kind = 4 THEN
            INSERT INTO tw.followers (plan, follower) VALUES (o.plan, own) ON CONFLICT DO NOTHING;
        ELSE
            DELETE FROM tw.followers f WHERE f.plan = o.plan AND f.follower = own;
        END IF;
    END LOOP;

    IF count > 0 THEN
        WITH written AS (
            INSERT INTO tw.journal (seq, plan, prev, epoch, records)
            SELECT nextval('tw.place'), a.plan, a.prev, a.epoch, a.records FROM (
                SELECT u.* FROM unnest(a_plan, a_prev, a_epoch, a_records, codes)
                    WITH ORDINALITY AS u (plan, prev, epoch, records, code, ord)
                WHERE u.code = 0 ORDER BY u.ord
            ) a RETURNING seq
        )
        SELECT coalesce(array_agg(seq ORDER BY seq), places) INTO places FROM written;
    END IF;
    IF cardinality(v_append) > 0 THEN
        INSERT INTO tw.large_values (plan, id, bytes)
            SELECT a_plan[v.append], v.id, v.bytes
            FROM unnest(v_append, v_id, v_bytes) AS v (append, id, bytes)
            WHERE codes[v.append] = 0 ON CONFLICT DO NOTHING;
    END IF;

    IF cardinality(c_kind) = 0 THEN RETURN; END IF;
    -- Together they cost a third each, and a few of them more than one by one.
    IF cardinality(c_kind) >= 8 AND tw.are_states_5(c_kind, c_digest) THEN
        SELECT * INTO d FROM tw.states_5(owners, epochs, c_kind, c_at, c_hold, c_expected, c_epoch,
            c_digest, c_texts, c_bytes, c_numbers);
        codes := codes || d.codes;
        numbers := numbers[1:count] || d.numbers;
        newer := newer[1:count] || d.newer;
        RETURN;
    END IF;
    -- One by one, in their order.
    FOR c IN SELECT * FROM unnest(c_kind, c_at, c_hold, c_expected, c_epoch, c_digest, c_of, c_bytes)
        WITH ORDINALITY AS u (kind, at, hold, expected, epoch, digest, of_digest, bytes, ord)
    LOOP
        i := count + c.ord;
        IF c.at > 0 AND epochs[c.at] <> c.hold THEN
            codes[i] := 3;
            numbers[i] := owners[c.at];
            newer[i] := epochs[c.at];
        ELSIF c.kind = 0 THEN
            codes[i] := 7;
        ELSE
            SELECT * INTO d FROM tw.change_1(
                c.kind, c.expected, c.epoch, c.digest, c.of_digest, c.bytes,
                c_texts[c.ord * 4 - 3 : c.ord * 4], c_numbers[c.ord * 8 - 7 : c.ord * 8]);
            codes[i] := d.code;
            numbers[i] := d.number;
        END IF;
    END LOOP;
END $$;

-- Whether these changes are of states alone, each of another one, beside those that the function does not
-- make (0).
CREATE FUNCTION tw.are_states_5(c_kind integer[], c_digest bytea[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT count(*) FILTER (WHERE u.kind > 1) = 0
        AND count(*) FILTER (WHERE u.kind = 1) = count(DISTINCT u.digest) FILTER (WHERE u.kind = 1)
        FROM unnest(c_kind, c_digest) u (kind, digest);
$$;

-- Writes states, each of another entity or key, as tw.change_1 does: texts, numbers and codes are those.
CREATE FUNCTION tw.states_5(
    owners bigint[], epochs bigint[],
    c_kind integer[], c_at integer[], c_hold bigint[], c_expected bigint[], c_epoch bigint[],
    c_digest bytea[], c_texts text[], c_bytes bytea[], c_numbers bigint[],
    OUT codes integer[], OUT numbers bigint[], OUT newer bigint[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    entities text[] := ARRAY(SELECT t.x FROM unnest(c_texts) WITH ORDINALITY t (x, n)
        WHERE t.n % 4 = 1 ORDER BY t.n);
    keys text[] := ARRAY(SELECT t.x FROM unnest(c_texts) WITH ORDINALITY t (x, n)
        WHERE t.n % 4 = 2 ORDER BY t.n);
    dues bigint[] := ARRAY(SELECT t.x FROM unnest(c_numbers) WITH ORDINALITY t (x, n)
        WHERE t.n % 8 = 5 ORDER BY t.n);
    made bytea[];
    c record;
    d record;
BEGIN
    -- States that are there: they stay as they are until the end of the transaction.
    SELECT array_agg(x.code ORDER BY x.ord),
        array_agg(CASE x.code WHEN 3 THEN owners[x.at] WHEN 4 THEN x.expected + 1
            WHEN 5 THEN x.version WHEN 6 THEN x.newest ELSE 0 END ORDER BY x.ord),
        array_agg(CASE x.code WHEN 3 THEN epochs[x.at] ELSE 0 END ORDER BY x.ord)
        INTO codes, numbers, newer
        FROM (SELECT u.*, coalesce(v.version, 0) AS version, coalesce(v.epoch, 0) AS newest,
                CASE WHEN u.at > 0 AND epochs[u.at] <> u.hold THEN 3 WHEN u.kind = 0 THEN 7
                    WHEN u.epoch < coalesce(v.epoch, 0) THEN 6
                    WHEN u.expected <> coalesce(v.version, 0) THEN 5 ELSE 4 END AS code
            FROM (SELECT * FROM unnest(c_kind, c_at, c_hold, c_expected, c_epoch, c_digest)
                    WITH ORDINALITY y (kind, at, hold, expected, epoch, digest, ord)
                    ORDER BY y.digest) u
                LEFT JOIN LATERAL (SELECT z.version, z.epoch FROM tw.states z
                    WHERE z.digest = u.digest AND u.kind = 1 FOR UPDATE) v ON true) x;
    UPDATE tw.states v SET bytes = u.bytes, version = u.expected + 1, epoch = u.epoch, due = u.due
        FROM unnest(c_expected, c_epoch, c_digest, c_bytes, dues)
            WITH ORDINALITY u (expected, epoch, digest, bytes, due, ord)
        WHERE v.digest = u.digest AND codes[u.ord] = 4 AND u.expected > 0;
    WITH written AS (
        INSERT INTO tw.states (digest, entity, key, bytes, version, epoch, due)
            SELECT u.digest, u.entity, u.key, u.bytes, 1, u.epoch, u.due
            FROM unnest(c_expected, c_epoch, c_digest, c_bytes, dues, entities, keys)
                WITH ORDINALITY u (expected, epoch, digest, bytes, due, entity, key, ord)
            WHERE codes[u.ord] = 4 AND u.expected = 0 ORDER BY u.digest
            ON CONFLICT DO NOTHING RETURNING digest
    )
    SELECT coalesce(array_agg(digest), ARRAY[]::bytea[]) INTO made FROM written;
    -- Others may have made some of them since.
    IF cardinality(made) < (SELECT count(*) FROM unnest(codes, c_expected) u (code, expected)
        WHERE u.code = 4 AND u.expected = 0)
    THEN
        FOR c IN SELECT * FROM unnest(codes, c_expected, c_epoch, c_digest)
            WITH ORDINALITY u (code, expected, epoch, digest, ord)
            WHERE u.code = 4 AND u.expected = 0 AND NOT u.digest = ANY (made)
        LOOP
            SELECT v.version, v.epoch INTO d FROM tw.states v WHERE v.digest = c.digest;
            codes[c.ord] := CASE WHEN c.epoch < d.epoch THEN 6 ELSE 5 END;
            numbers[c.ord] := coalesce(CASE WHEN c.epoch < d.epoch THEN d.epoch ELSE d.version END, 0);
        END LOOP;
    END IF;
END $$;

-- Brings rows of plans up to date, those under the epoch of their slot, and counts plans that have ended. The row
-- before is looked up once for each, and no array is searched for each row.
CREATE OR REPLACE FUNCTION tw.rows_1(
    w bigint, s bigint, held integer[], mark bigint,
    r_at integer[], r_epoch bigint[], r_refresh boolean[], r_id uuid[], r_head bigint[],
    r_state text[], r_result text[], r_label text[], r_action text[], r_by text[], r_labels text[],
    r_created bigint[], r_started bigint[], r_ended bigint[], r_wakes bigint[], r_busy boolean[],
    r_caller uuid[], r_step bigint[], r_waits text[], r_waits_for text[], r_seq bigint[],
    r_snapshot bytea[],
    l_row integer[], l_name text[], l_value text[],
    v_row integer[], v_id bytea[], v_bytes bytea[]
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    epochs bigint[];
    -- Of each row: whether it is written, with new labels, and what was there before.
    keeps boolean[];
    labels_new boolean[];
    old_states text[];
    old_results text[];
    old_waits text[];
    newest bigint;
BEGIN
    PERFORM tw.enter_1(w, s);
    SELECT h.epochs INTO epochs FROM tw.hold_1(held) h;
    SELECT array_agg(epochs[r.at] = r.epoch AND (NOT r.refresh OR p.id IS NOT NULL) ORDER BY r.ord),
        array_agg(coalesce(p.labels, '{}') <> r.labels ORDER BY r.ord),
        array_agg(p.state ORDER BY r.ord), array_agg(p.result ORDER BY r.ord),
        array_agg(p.waits ORDER BY r.ord)
        INTO keeps, labels_new, old_states, old_results, old_waits
        FROM unnest(r_at, r_epoch, r_refresh, r_id, r_labels)
            WITH ORDINALITY AS r (at, epoch, refresh, id, labels, ord)
        LEFT JOIN tw.plans p ON p.id = r.id;
    UPDATE tw.writers x SET projected = mark WHERE x.number = w AND x.projected < mark;
    IF NOT true = ANY (keeps) THEN RETURN; END IF;

    IF true = ANY (labels_new) THEN
        DELETE FROM tw.labels x USING unnest(r_id) WITH ORDINALITY AS r (id, ord)
            WHERE x.plan = r.id AND keeps[r.ord] AND labels_new[r.ord]
                AND old_states[r.ord] IS NOT NULL;
        INSERT INTO tw.labels (plan, name, value)
            SELECT r_id[l.row], l.name, l.value FROM unnest(l_row, l_name, l_value) l (row, name, value)
            WHERE keeps[l.row] AND labels_new[l.row] ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(v_row) > 0 THEN
        INSERT INTO tw.large_values (plan, id, bytes)
            SELECT r_id[v.row], v.id, v.bytes FROM unnest(v_row, v_id, v_bytes) v (row, id, bytes)
            WHERE keeps[v.row] ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO tw.snapshots AS x (plan, seq, bytes)
        SELECT r.id, r.seq, r.bytes
        FROM unnest(r_id, r_seq, r_snapshot) WITH ORDINALITY AS r (id, seq, bytes, ord)
        WHERE r.seq IS NOT NULL AND keeps[r.ord]
        ON CONFLICT (plan) DO UPDATE SET seq = excluded.seq, bytes = excluded.bytes;
    WITH fresh AS (
        SELECT r.*, old_states[r.ord] AS old_state, old_results[r.ord] AS old_result,
            old_waits[r.ord] AS old_waits
        FROM unnest(r_id, r_head, r_state, r_result, r_label, r_action, r_by, r_labels,
            r_created, r_started, r_ended, r_wakes, r_busy, r_caller, r_step, r_waits, r_waits_for)
            WITH ORDINALITY AS r (id, head, state, result, label, action, by, labels, created,
            started, ended, wakes, busy, caller, step, waits, waits_for, ord)
        WHERE keeps[r.ord]
    ), over AS (
        -- Rows of a plan that is over are written again, with a snapshot say.
        SELECT ended - ended % 60000000 AS minute,
            CASE label WHEN '' THEN action ELSE label END AS name, result,
            tw.took_2(started, ended) AS took
        FROM fresh
        WHERE state = 'stopped' AND ended IS NOT NULL AND old_state IS DISTINCT FROM 'stopped'
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
        UNION ALL SELECT old_state, old_result, f.old_waits, -1 FROM fresh f
            WHERE old_state IS NOT NULL
    )
    INSERT INTO tw.counts AS x (writer, state, result, waits, plans)
        SELECT w, state, result, waits, sum(one) FROM moved GROUP BY 2, 3, 4 HAVING sum(one) <> 0
        ON CONFLICT (writer, state, result, waits) DO UPDATE SET plans = x.plans + excluded.plans;
    -- Older tallies than are kept go; those that another writer removes at this moment are left to it.
    SELECT max(u.ended) INTO newest FROM unnest(r_state, r_ended) u (state, ended)
        WHERE u.state = 'stopped';
    IF newest IS NOT NULL THEN
        DELETE FROM tw.tallies x USING (
            SELECT minute, writer, digest FROM tw.tallies WHERE minute < newest - tw.kept_2()
            ORDER BY minute LIMIT 1000 FOR UPDATE SKIP LOCKED) o
            WHERE x.minute = o.minute AND x.writer = o.writer AND x.digest = o.digest;
    END IF;
END $$;

UPDATE tw.meta SET value = 5 WHERE name = 'version';
