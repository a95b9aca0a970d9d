-- The heads of all lines get a table of their own. Under an index of `queue` each take made a new version of a queue's row with entries in all its
-- indexes, and while a transaction is open, a dump for instance, PostgreSQL removes none of them: a row was searched for among all that it
-- had ever been. A version without a new entry stays in its page, and a head is found by its place, which is another one each time.
CREATE TABLE queue_head (
    priority BIGINT NOT NULL,
    id BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (priority, id, name)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
INSERT INTO queue_head SELECT head_priority, head_id, name FROM queue WHERE head_id IS NOT NULL;
DROP INDEX queue_first;

CREATE FUNCTION move_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.head_id IS NOT NULL THEN
        DELETE FROM anew.queue_head WHERE priority = OLD.head_priority AND id = OLD.head_id AND name = OLD.name;
    END IF;
    IF NEW.head_id IS NOT NULL THEN
        INSERT INTO anew.queue_head VALUES (NEW.head_priority, NEW.head_id, NEW.name);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER new_head AFTER INSERT OR DELETE ON queue FOR EACH ROW EXECUTE FUNCTION move_head();
CREATE TRIGGER other_head AFTER UPDATE OF head_priority, head_id ON queue FOR EACH ROW
    WHEN ((OLD.head_priority, OLD.head_id) IS DISTINCT FROM (NEW.head_priority, NEW.head_id)) EXECUTE FUNCTION move_head();
