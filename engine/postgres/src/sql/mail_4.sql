-- Format 4: rows between nodes have an age, and are read up to a number of bytes. "tw." stands for the schema
-- of the store. tw.post_1 and tw.mail_1 stay for processes of the release before.
ALTER TABLE tw.mail ADD COLUMN at timestamptz NOT NULL DEFAULT clock_timestamp();

-- Leaves rows for the worlds that are registered, with a hint for their nodes. p_age is how long each has
-- waited before, in microseconds.
CREATE FUNCTION tw.post_4(p_world bigint[], p_bytes bytea[], p_age bigint[], channel text)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO tw.mail (world, bytes, at)
        SELECT u.world, u.bytes, clock_timestamp() - least(u.age, 86400000000) * interval '1 microsecond'
        FROM unnest(p_world, p_bytes, p_age) WITH ORDINALITY AS u (world, bytes, age, ord)
        JOIN tw.worlds x ON x.number = u.world ORDER BY u.ord FOR KEY SHARE OF x;
    SELECT pg_notify(channel, u.world::text) FROM (SELECT DISTINCT unnest(p_world) AS world) u;
$$;

-- The oldest rows of these worlds, and none after those that have most_bytes; those that were seen go.
CREATE FUNCTION tw.mail_4(m_world bigint[], seen bigint[], most bigint, most_bytes bigint)
RETURNS TABLE (id bigint, world bigint, bytes bytea, age_us bigint) LANGUAGE sql AS $$
    DELETE FROM tw.mail x WHERE x.id = ANY (seen);
    SELECT x.id, x.world, x.bytes,
            greatest(extract(epoch FROM clock_timestamp() - x.at) * 1000000, 0)::bigint
        FROM (SELECT y.*, sum(y.size) OVER (ORDER BY y.id) - y.size AS before
            FROM (SELECT z.*, octet_length(z.bytes) AS size FROM tw.mail z
                WHERE z.world = ANY (m_world) ORDER BY z.id LIMIT most) y) x
        WHERE x.before < most_bytes ORDER BY x.id;
$$;

UPDATE tw.meta SET value = 4 WHERE name = 'version';
