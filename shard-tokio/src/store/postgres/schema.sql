-- The tables of a store, version 1. Names are bytes, so that the database's encoding and collation do not matter and
-- their order is that of the program; `convert_from(id, 'UTF8')` shows them. Unsigned numbers are kept bit by bit.

CREATE TABLE {schema}.store (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id bigint NOT NULL,
    version integer NOT NULL
);

-- A version 4 UUID has four bits of its first half set to 4: never 0.
INSERT INTO {schema}.store (id, version)
VALUES (('x' || left(replace(gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint, {version});

-- What may be fenced: journals of entities (space 0), their values (1), and shards whose entities are remembered (2).
-- `seq` is the last event or the revision. Whoever writes anything of an entity holds the lock of its row in here.
CREATE TABLE {schema}.fence (
    key bigint GENERATED ALWAYS AS IDENTITY,
    space smallint NOT NULL,
    entity_type bytea NOT NULL,
    id bytea NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (space, entity_type, id),
    UNIQUE (key)
) WITH (fillfactor = 70);

CREATE TABLE {schema}.event (
    fence bigint NOT NULL,
    seq bigint NOT NULL,
    event bytea NOT NULL,
    PRIMARY KEY (fence, seq)
);

-- Snapshots of journals, and values.
CREATE TABLE {schema}.state (
    fence bigint PRIMARY KEY,
    seq bigint NOT NULL,
    state bytea NOT NULL
) WITH (fillfactor = 80);

CREATE SEQUENCE {schema}.heard;

CREATE TABLE {schema}.sender (
    fence bigint NOT NULL,
    sender bigint NOT NULL,
    seq bigint NOT NULL,
    heard bigint NOT NULL,
    PRIMARY KEY (fence, sender)
) WITH (fillfactor = 70);

CREATE TABLE {schema}.remembered (
    fence bigint NOT NULL,
    name bytea NOT NULL,
    -- The id, if it is too long to be its own name.
    id bytea,
    PRIMARY KEY (fence, name)
);

-- An index takes no more than a third of a page: a long id is told from others by its beginning and a digest.
CREATE FUNCTION {schema}.name(id bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $name$
    SELECT CASE WHEN length(id) <= 1024 THEN id ELSE substring(id FROM 1 FOR 1024) || sha256(id) END
$name$;

-- A group of requests, no two of them about the same row of `fence`, in one transaction. Those that are refused change
-- nothing. The planner knows nothing of new tables and of arrays, and would read whole tables: it is told not to. That
-- makes plans look expensive: without `jit = off` they would be compiled, which takes longer than all the rest.
CREATE FUNCTION {schema}.write(
    -- The store that the caller means: behind a connection the tables may have been replaced.
    p_store bigint,
    -- Per request: `first` is the number that has to come next, `step` how many there are from there,
    -- `upto` the event that a snapshot is of.
    p_space smallint[], p_type bytea[], p_id bytea[], p_epoch bigint[], p_first bigint[], p_step bigint[], p_upto bigint[],
    -- What is written, and by which request (from 1).
    p_event_of integer[], p_event_seq bigint[], p_event bytea[],
    p_state_of integer[], p_state_seq bigint[], p_state bytea[],
    p_sender_of integer[], p_sender bigint[], p_sender_seq bigint[], p_max_senders bigint,
    p_change_of integer[], p_change_id bytea[], p_change_alive boolean[]
)
-- `verdict`: 0 done, 1 fenced by `seen`, 2 out of sequence. `last` is before the write.
RETURNS TABLE (verdict integer, key bigint, seen bigint, expected bigint, last bigint)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $write$
#variable_conflict use_column
DECLARE
    -- Turned over, unsigned numbers compare as signed ones.
    turn CONSTANT bigint := ~9223372036854775807;
    keys bigint[];
    seens bigint[];
    lasts bigint[];
    expecteds bigint[];
    verdicts integer[];
    fresh bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.store s WHERE s.one AND s.id = p_store) THEN
        RAISE EXCEPTION 'the store % is not here any more', to_hex(p_store) USING ERRCODE = 'SH001';
    END IF;

    -- Makes the rows that are missing and locks all others, in order, so that two groups never wait for each other.
    INSERT INTO {schema}.fence AS f (space, entity_type, id)
        SELECT r.space, {schema}.name(r.entity_type), {schema}.name(r.id)
          FROM unnest(p_space, p_type, p_id) AS r (space, entity_type, id)
         ORDER BY 1, 2, 3
        ON CONFLICT (space, entity_type, id) DO UPDATE SET epoch = f.epoch WHERE false;

    -- A statement of its own: it sees what others wrote before the locks were had.
    SELECT array_agg(c.key ORDER BY c.n), array_agg(c.epoch ORDER BY c.n), array_agg(c.seq ORDER BY c.n),
           array_agg(c.expected ORDER BY c.n),
           array_agg(CASE WHEN (c.epoch # turn) > (c.given # turn) THEN 1
                          WHEN c.expected <> c.number THEN 2
                          ELSE 0 END ORDER BY c.n)
      INTO keys, seens, lasts, expecteds, verdicts
      FROM (SELECT r.n, f.key, f.epoch, f.seq, r.epoch AS given, coalesce(r.first, r.upto) AS number,
                   CASE WHEN r.first IS NOT NULL THEN f.seq + 1
                        WHEN r.upto > f.seq THEN f.seq
                        WHEN r.upto IS NOT NULL THEN greatest(r.upto, (SELECT s.seq FROM {schema}.state s WHERE s.fence = f.key))
                   END AS expected
              FROM unnest(p_space, p_type, p_id, p_epoch, p_first, p_upto) WITH ORDINALITY
                   AS r (space, entity_type, id, epoch, first, upto, n)
              JOIN {schema}.fence f ON f.space = r.space AND f.entity_type = {schema}.name(r.entity_type)
                                   AND f.id = {schema}.name(r.id)) c;

    UPDATE {schema}.fence f SET epoch = g.epoch, seq = f.seq + g.step
      FROM unnest(keys, p_epoch, p_step, verdicts) AS g (key, epoch, step, verdict)
     WHERE f.key = g.key AND g.verdict = 0 AND (f.epoch <> g.epoch OR g.step <> 0);

    IF cardinality(p_event_of) > 0 THEN
        INSERT INTO {schema}.event (fence, seq, event)
            SELECT keys[w.request], w.seq, w.event
              FROM unnest(p_event_of, p_event_seq, p_event) AS w (request, seq, event)
             WHERE verdicts[w.request] = 0;
    END IF;

    IF cardinality(p_state_of) > 0 THEN
        INSERT INTO {schema}.state AS s (fence, seq, state)
            SELECT keys[w.request], w.seq, w.state
              FROM unnest(p_state_of, p_state_seq, p_state) AS w (request, seq, state)
             WHERE verdicts[w.request] = 0 AND w.state IS NOT NULL
            ON CONFLICT (fence) DO UPDATE SET seq = excluded.seq, state = excluded.state;
        DELETE FROM {schema}.state s
         USING unnest(p_state_of, p_state_seq, p_state) AS w (request, seq, state)
         WHERE verdicts[w.request] = 0 AND w.state IS NULL AND s.fence = keys[w.request];
    END IF;

    IF cardinality(p_sender_of) > 0 THEN
        fresh := ARRAY(
            SELECT keys[w.request] FROM unnest(p_sender_of, p_sender) AS w (request, sender)
             WHERE verdicts[w.request] = 0 AND NOT EXISTS
                   (SELECT FROM {schema}.sender s WHERE s.fence = keys[w.request] AND s.sender = w.sender));
        INSERT INTO {schema}.sender AS s (fence, sender, seq, heard)
            SELECT keys[w.request], w.sender, w.seq, nextval('{schema}.heard')
              FROM unnest(p_sender_of, p_sender, p_sender_seq) AS w (request, sender, seq)
             WHERE verdicts[w.request] = 0
            ON CONFLICT (fence, sender) DO UPDATE
                SET seq = greatest(s.seq # turn, excluded.seq # turn) # turn, heard = excluded.heard;
        IF cardinality(fresh) > 0 THEN
            DELETE FROM {schema}.sender s
             USING (SELECT k.fence, k.sender, row_number() OVER (PARTITION BY k.fence ORDER BY k.heard DESC) AS place
                      FROM {schema}.sender k WHERE k.fence = ANY (fresh)) AS old
             WHERE old.place > p_max_senders AND s.fence = old.fence AND s.sender = old.sender;
        END IF;
    END IF;

    IF cardinality(p_change_of) > 0 THEN
        INSERT INTO {schema}.remembered (fence, name, id)
            SELECT keys[w.request], {schema}.name(w.id), CASE WHEN length(w.id) > 1024 THEN w.id END
              FROM unnest(p_change_of, p_change_id, p_change_alive) AS w (request, id, alive)
             WHERE verdicts[w.request] = 0 AND w.alive
            ON CONFLICT DO NOTHING;
        DELETE FROM {schema}.remembered m
         USING unnest(p_change_of, p_change_id, p_change_alive) AS w (request, id, alive)
         WHERE verdicts[w.request] = 0 AND NOT w.alive AND m.fence = keys[w.request] AND m.name = {schema}.name(w.id);
    END IF;

    RETURN QUERY SELECT g.verdict, g.key, g.seen, g.expected, g.last
      FROM unnest(verdicts, keys, seens, expecteds, lasts) AS g (verdict, key, seen, expected, last);
END
$write$;
