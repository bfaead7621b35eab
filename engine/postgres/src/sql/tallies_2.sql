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

UPDATE tw.meta SET value = 2 WHERE name = 'version';
