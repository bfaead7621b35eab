-- Functions of format 1. Each is one transaction by itself, in one round trip. A release that changes
-- one gives it another name, so that two neighbouring releases run side by side.
--
-- tw.commit_1 and tw.rows_1 are in commits_5.sql: a later text of the same function takes the place of the first.
--
-- TW001: another writer has taken the store for itself. TW002: another connection has taken over this
-- writer. TW003: another world serves the schedules. TW004: the tables are damaged. TW005: another
-- process has the store for itself, or nodes share it.

-- Raises the marks of writers to the last place before which every entry is in its row. A row that is
-- locked has no commit under way, and later commits of its writer have later places.
CREATE FUNCTION tw.tidy_1() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    x record;
    reached bigint;
BEGIN
    FOR x IN SELECT r.number, r.projected FROM tw.writers r ORDER BY r.number FOR UPDATE LOOP
        SELECT coalesce(min(j.seq) - 1, (SELECT coalesce(max(e.seq), 0) FROM tw.journal e))
            INTO reached
            FROM tw.journal j LEFT JOIN tw.plans p ON p.id = j.plan
            WHERE j.seq > x.projected AND (p.head IS NULL OR p.head < j.seq);
        UPDATE tw.writers r SET projected = reached
            WHERE r.number = x.number AND r.projected < reached;
    END LOOP;
END $$;

-- A node that is alive, with how it is reached; null if none has said it.
CREATE FUNCTION tw.node_1() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT 'node ' || x.name || ' serving ' || (g ->> 1)
        FROM tw.leases l JOIN tw.worlds x ON x.number = l.world,
            json_array_elements(x.meta::json -> 'given') g
        WHERE l.ends > clock_timestamp() AND g ->> 0 = 'address' ORDER BY l.ends DESC LIMIT 1;
$$;

-- Opens a writer. The ones before it are refused from now on if it is alone.
CREATE FUNCTION tw.open_1(
    alone boolean, own uuid, own_said text, lease_us bigint, OUT number bigint, OUT last bigint
) LANGUAGE plpgsql AS $$
DECLARE
    now_at timestamptz := clock_timestamp();
    h record;
BEGIN
    SELECT x.* INTO h FROM tw.holder x WHERE x.instance <> own AND x.ends > now_at FOR UPDATE;
    IF FOUND THEN
        RAISE EXCEPTION 'in use' USING ERRCODE = 'TW005', DETAIL = h.said, HINT = h.ends::text;
    END IF;
    IF alone THEN
        IF EXISTS (SELECT FROM tw.leases l WHERE l.ends > now_at) THEN
            RAISE EXCEPTION 'in use' USING ERRCODE = 'TW005',
                DETAIL = coalesce(tw.node_1(), 'nodes that share it'),
                HINT = (SELECT max(l.ends)::text FROM tw.leases l);
        END IF;
        INSERT INTO tw.holder AS x (instance, said, ends)
            VALUES (own, own_said, now_at + lease_us * interval '1 microsecond')
            ON CONFLICT (one) DO UPDATE SET instance = excluded.instance, ends = excluded.ends,
                said = CASE WHEN x.instance = own THEN x.said ELSE excluded.said END;
    END IF;
    UPDATE tw.meta SET value = value + 1 WHERE name = 'writer' RETURNING value INTO number;
    INSERT INTO tw.writers (number, projected)
        SELECT open_1.number, coalesce(min(w.projected), 0) FROM tw.writers w;
    IF NOT alone THEN
        PERFORM tw.tidy_1();
    ELSE
        -- Waits for their commits: each has its row locked.
        DELETE FROM tw.writers w WHERE w.number < open_1.number;
        WITH gone AS (DELETE FROM tw.counts c WHERE c.writer < open_1.number RETURNING *)
        INSERT INTO tw.counts
            SELECT open_1.number, g.state, g.result, g.waits, sum(g.plans) FROM gone g
            GROUP BY 2, 3, 4 HAVING sum(g.plans) <> 0;
    END IF;
    SELECT CASE WHEN p.is_called THEN p.last_value ELSE 0 END INTO last FROM tw.place p;
END $$;

-- Renews the lease of the process that has the store for itself, and says how it is reached.
CREATE FUNCTION tw.keep_1(own uuid, own_said text, lease_us bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tw.holder x SET ends = clock_timestamp() + lease_us * interval '1 microsecond',
        said = coalesce(own_said, x.said) WHERE x.instance = own;
    RETURN FOUND;
END $$;

-- Gives a writer to a new connection: what is under way on its former one has ended, or is refused.
CREATE FUNCTION tw.session_1(w bigint, OUT session bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tw.writers r SET session = r.session + 1 WHERE r.number = w
        RETURNING r.session INTO session;
    IF NOT FOUND THEN PERFORM tw.refuse_1(); END IF;
END $$;

CREATE FUNCTION tw.refuse_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'another writer has taken the store for itself' USING ERRCODE = 'TW001',
        DETAIL = (SELECT value FROM tw.meta WHERE name = 'writer');
END $$;

-- The beginning of each write: this writer is there, and no other connection writes for it.
CREATE FUNCTION tw.enter_1(w bigint, s bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at bigint;
BEGIN
    SELECT r.session INTO now_at FROM tw.writers r WHERE r.number = w FOR UPDATE;
    IF NOT FOUND THEN PERFORM tw.refuse_1(); END IF;
    IF now_at <> s THEN
        RAISE EXCEPTION 'another connection has taken over this writer' USING ERRCODE = 'TW002';
    END IF;
END $$;

-- The owners and epochs of slots, which stay as they are until the end of the transaction.
CREATE FUNCTION tw.hold_1(held integer[], OUT owners bigint[], OUT epochs bigint[])
LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(h.owner ORDER BY h.slot), array_agg(h.epoch ORDER BY h.slot)
        INTO owners, epochs
        FROM (SELECT slot, owner, epoch FROM tw.slots WHERE slot = ANY (held) ORDER BY slot
            FOR KEY SHARE) h;
    IF coalesce(cardinality(epochs), 0) <> cardinality(held) THEN
        RAISE EXCEPTION 'rows of slots are missing' USING ERRCODE = 'TW004';
    END IF;
END $$;

-- Kinds: 1 state, 2 reminder, 3 reminder removed. Texts: entity, key, name, missed. Numbers:
-- first_due, delay, period, planned, due, failures, skipped, revision.
CREATE FUNCTION tw.change_1(
    kind integer, expected bigint, e bigint, d bytea, d_of bytea, b bytea, t text[], n bigint[],
    OUT code integer, OUT number bigint
) LANGUAGE plpgsql AS $$
DECLARE
    known_version bigint := 0;
    newest bigint := 0;
    is_known boolean;
BEGIN
    IF kind = 1 THEN
        INSERT INTO tw.states (digest, entity, key, bytes, version, epoch, due)
            SELECT d, t[1], t[2], b, 1, e, n[5] WHERE expected = 0 ON CONFLICT DO NOTHING;
        IF FOUND THEN
            code := 4;
            number := 1;
            RETURN;
        END IF;
        SELECT v.version, v.epoch INTO known_version, newest FROM tw.states v WHERE v.digest = d
            FOR UPDATE;
        known_version := coalesce(known_version, 0);
        newest := coalesce(newest, 0);
    ELSE
        -- The row of the entity is what its writers wait for.
        INSERT INTO tw.reminder_epochs (of_digest, epoch) VALUES (d_of, 0) ON CONFLICT DO NOTHING;
        SELECT r.epoch INTO newest FROM tw.reminder_epochs r WHERE r.of_digest = d_of FOR UPDATE;
        SELECT coalesce(max(r.version), 0) INTO known_version FROM tw.reminders r WHERE r.digest = d;
    END IF;
    IF e < newest THEN
        code := 6;
        number := newest;
        RETURN;
    END IF;
    IF known_version <> expected THEN
        code := 5;
        number := known_version;
        RETURN;
    END IF;
    code := 4;
    IF kind = 1 THEN
        number := expected + 1;
        UPDATE tw.states v SET bytes = b, version = number, epoch = e, due = n[5]
            WHERE v.digest = d;
        RETURN;
    END IF;
    IF e > newest THEN
        UPDATE tw.reminder_epochs r SET epoch = e WHERE r.of_digest = d_of;
    END IF;
    IF kind = 3 THEN
        number := expected;
        DELETE FROM tw.reminders r WHERE r.digest = d;
        RETURN;
    END IF;
    number := nextval('tw.reminder_version');
    INSERT INTO tw.reminders AS r VALUES (d, d_of, t[1], t[2], t[3], n[1], n[2], n[3], t[4], n[4],
            n[5], n[6], n[7], CASE WHEN n[8] = 0 THEN number ELSE n[8] END, number)
        ON CONFLICT (digest) DO UPDATE SET first_due = excluded.first_due, delay = excluded.delay,
            period = excluded.period, missed = excluded.missed, planned = excluded.planned,
            due = excluded.due, failures = excluded.failures, skipped = excluded.skipped,
            revision = excluded.revision, version = excluded.version;
END $$;

-- Removes stopped plans with all that is theirs.
CREATE FUNCTION tw.remove_1(
    w bigint, s bigint, held integer[], r_id uuid[], r_head bigint[], r_at integer[], r_epoch bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    epochs bigint[];
    gone uuid[];
BEGIN
    PERFORM tw.enter_1(w, s);
    SELECT h.epochs INTO epochs FROM tw.hold_1(held) h;
    WITH removed AS (
        DELETE FROM tw.plans p USING unnest(r_id, r_head, r_at, r_epoch) AS r (id, head, at, epoch)
        WHERE p.id = r.id AND p.head = r.head AND p.state = 'stopped' AND epochs[r.at] = r.epoch
        RETURNING p.id, p.state, p.result, p.waits
    ), counted AS (
        INSERT INTO tw.counts AS x (writer, state, result, waits, plans)
        SELECT w, state, result, waits, -count(*) FROM removed GROUP BY 2, 3, 4
        ON CONFLICT (writer, state, result, waits) DO UPDATE SET plans = x.plans + excluded.plans
    )
    SELECT coalesce(array_agg(id), ARRAY[]::uuid[]) INTO gone FROM removed;
    DELETE FROM tw.journal x WHERE x.plan = ANY (gone);
    DELETE FROM tw.snapshots x WHERE x.plan = ANY (gone);
    DELETE FROM tw.large_values x WHERE x.plan = ANY (gone);
    DELETE FROM tw.labels x WHERE x.plan = ANY (gone);
    DELETE FROM tw.keys x WHERE x.plan = ANY (gone);
    DELETE FROM tw.states x USING unnest(gone) u (plan)
        WHERE x.entity = 'turnwheel.of-plan' AND left(x.key, 37) = u.plan::text || '/';
    RETURN cardinality(gone);
END $$;

CREATE FUNCTION tw.free_1(w bigint, s bigint, f_digest bytea[], f_plan uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tw.enter_1(w, s);
    DELETE FROM tw.locks l USING unnest(f_digest, f_plan) u (digest, plan)
        WHERE l.digest = u.digest AND l.plan = u.plan;
END $$;

-- The version that was found for each that was not written; null for the others.
CREATE FUNCTION tw.schedules_1(
    w bigint, s bigint, p_name text[], p_from bigint[], p_data bytea[], p_epoch bigint[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    epochs bigint[];
    found_versions bigint[] := ARRAY[]::bigint[];
    known bigint;
    p record;
BEGIN
    PERFORM tw.enter_1(w, s);
    SELECT h.epochs INTO epochs FROM tw.hold_1(ARRAY[0]) h;
    FOR p IN SELECT * FROM unnest(p_name, p_from, p_data, p_epoch) u (name, version, data, epoch) LOOP
        IF p.epoch <> epochs[1] THEN
            RAISE EXCEPTION 'another world serves the schedules' USING ERRCODE = 'TW003',
                DETAIL = epochs[1];
        END IF;
        IF p.version = 0 AND p.data IS NOT NULL THEN
            INSERT INTO tw.schedules (name, version, data) VALUES (p.name, 1, p.data)
                ON CONFLICT DO NOTHING;
            IF FOUND THEN
                found_versions := found_versions || NULL::bigint;
                CONTINUE;
            END IF;
        END IF;
        SELECT x.version INTO known FROM tw.schedules x WHERE x.name = p.name FOR UPDATE;
        known := coalesce(known, 0);
        IF known <> p.version THEN
            found_versions := found_versions || known;
            CONTINUE;
        END IF;
        found_versions := found_versions || NULL::bigint;
        IF p.data IS NULL THEN
            DELETE FROM tw.schedules x WHERE x.name = p.name;
        ELSE
            UPDATE tw.schedules x SET version = known + 1, data = p.data WHERE x.name = p.name;
        END IF;
    END LOOP;
    RETURN found_versions;
END $$;

-- Renews leases by the clock of the database. A registered world without a lease gets one.
CREATE FUNCTION tw.beat_1(
    b_world bigint[], lease_us bigint, letters_digest bytea,
    OUT version bigint, OUT leased bigint[], OUT left_us bigint[], OUT letters bigint
) LANGUAGE plpgsql AS $$
DECLARE
    now_at timestamptz := clock_timestamp();
BEGIN
    INSERT INTO tw.leases AS l (world, ends)
        SELECT x.number, now_at + lease_us * interval '1 microsecond' FROM tw.worlds x
        WHERE x.number = ANY (b_world)
            OR NOT EXISTS (SELECT FROM tw.leases o WHERE o.world = x.number)
        ORDER BY x.number
        ON CONFLICT (world) DO UPDATE SET ends = excluded.ends WHERE l.world = ANY (b_world);
    DELETE FROM tw.leases l WHERE NOT EXISTS (SELECT FROM tw.worlds x WHERE x.number = l.world);
    SELECT m.value INTO version FROM tw.meta m WHERE m.name = 'worlds';
    SELECT coalesce(array_agg(l.world ORDER BY l.world), ARRAY[]::bigint[]),
            coalesce(array_agg(greatest(ceil(extract(epoch FROM l.ends - now_at) * 1e6), 0)::bigint
                ORDER BY l.world), ARRAY[]::bigint[])
        INTO leased, left_us FROM tw.leases l;
    SELECT coalesce(max(x.version), 0) INTO letters FROM tw.states x
        WHERE x.digest = letters_digest;
END $$;

-- Leaves rows for the worlds that are registered, with a hint for their nodes.
CREATE FUNCTION tw.post_1(p_world bigint[], p_bytes bytea[], channel text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO tw.mail (world, bytes)
        SELECT u.world, u.bytes FROM unnest(p_world, p_bytes) WITH ORDINALITY AS u (world, bytes, ord)
        JOIN tw.worlds x ON x.number = u.world ORDER BY u.ord FOR KEY SHARE OF x;
    SELECT pg_notify(channel, u.world::text) FROM (SELECT DISTINCT unnest(p_world) AS world) u;
$$;

-- The oldest rows of these worlds; those that were seen go.
CREATE FUNCTION tw.mail_1(m_world bigint[], seen bigint[], most bigint)
RETURNS TABLE (id bigint, world bigint, bytes bytea) LANGUAGE sql AS $$
    DELETE FROM tw.mail x WHERE x.id = ANY (seen);
    SELECT x.id, x.world, x.bytes FROM tw.mail x WHERE x.world = ANY (m_world)
        ORDER BY x.id LIMIT most;
$$;

-- The version that was found if nothing was written. With is_dead only if the leases of all worlds
-- that go are over.
CREATE FUNCTION tw.worlds_1(
    w bigint, s bigint, is_dead boolean, p_from bigint, p_gone bigint[], p_number bigint[], p_name text[],
    p_kind text[], p_since bigint[], p_meta text[], p_claims text[], s_slot integer[],
    s_owner bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known bigint;
    changed integer[];
    wanted bigint[];
BEGIN
    PERFORM tw.enter_1(w, s);
    SELECT m.value INTO known FROM tw.meta m WHERE m.name = 'worlds' FOR UPDATE;
    IF known <> p_from THEN RETURN known; END IF;
    IF is_dead THEN
        -- A heartbeat that comes now waits, and finds its world gone.
        PERFORM 1 FROM tw.leases l WHERE l.world = ANY (p_gone) ORDER BY l.world FOR UPDATE;
        IF EXISTS (
            SELECT FROM unnest(p_gone) g (world) LEFT JOIN tw.leases l ON l.world = g.world
            WHERE l.ends IS NULL OR l.ends > clock_timestamp()
        ) THEN RETURN known; END IF;
        DELETE FROM tw.leases l WHERE l.world = ANY (p_gone);
    END IF;
    DELETE FROM tw.worlds x WHERE x.number = ANY (p_gone);
    INSERT INTO tw.worlds
        SELECT * FROM unnest(p_number, p_name, p_kind, p_since, p_meta, p_claims)
        ON CONFLICT (number) DO UPDATE SET name = excluded.name, kind = excluded.kind,
            since = excluded.since, meta = excluded.meta, claims = excluded.claims;
    SELECT array_agg(n.slot ORDER BY n.slot), array_agg(n.owner ORDER BY n.slot) INTO changed, wanted
        FROM (
            SELECT x.slot, x.owner AS now_owner, greatest(
                CASE WHEN x.owner = ANY (p_gone || p_number) THEN 0 ELSE x.owner END,
                coalesce(max(u.owner), 0)) AS owner
            FROM tw.slots x LEFT JOIN unnest(s_slot, s_owner) u (slot, owner) ON u.slot = x.slot
            GROUP BY x.slot
        ) n WHERE n.owner <> n.now_owner;
    -- In the order in which commits take them.
    PERFORM 1 FROM tw.slots x WHERE x.slot = ANY (changed) ORDER BY x.slot FOR UPDATE;
    UPDATE tw.slots x SET owner = u.owner, epoch = x.epoch + 1
        FROM unnest(changed, wanted) u (slot, owner) WHERE x.slot = u.slot;
    UPDATE tw.meta m SET value = p_from + 1 WHERE m.name = 'worlds';
    RETURN NULL;
END $$;
