-- Format 3: a schedule is of the slot of its name. "tw." stands for the schema of the store. Rows stay
-- as they are. tw.schedules_1 stays for processes of the release before, of which the owner of slot 0
-- launches all schedules: both write from the version they have read, and a launch has one key.

-- The version that was found for each that was not written; null for the others. For one that another
-- world serves, the epoch of that one as -1 - epoch. held are the slots of all, in rising order.
CREATE FUNCTION tw.schedules_3(
    w bigint, s bigint, held integer[],
    p_name text[], p_from bigint[], p_data bytea[], p_slot integer[], p_epoch bigint[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    epochs bigint[];
    found_versions bigint[] := ARRAY[]::bigint[];
    known bigint;
    p record;
BEGIN
    PERFORM tw.enter_1(w, s);
    SELECT h.epochs INTO epochs FROM tw.hold_1(held) h;
    FOR p IN SELECT u.*, epochs[array_position(held, u.slot)] AS newest
        FROM unnest(p_name, p_from, p_data, p_slot, p_epoch) u (name, version, data, slot, epoch)
    LOOP
        IF p.epoch <> p.newest THEN
            found_versions := found_versions || (-1 - p.newest);
            CONTINUE;
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

UPDATE tw.meta SET value = 3 WHERE name = 'version';
