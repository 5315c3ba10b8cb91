-- A list of revisions shows how much each changes, and reads no texts: the index has all that it needs.
ALTER TABLE config_revision ADD COLUMN added INTEGER NOT NULL DEFAULT 0;      -- lines
ALTER TABLE config_revision ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;    -- lines
ALTER TABLE config_revision ADD COLUMN text_bytes INTEGER NOT NULL DEFAULT 0; -- of both texts
UPDATE config_revision SET
	added = lines_added(text_before, text_after),
	removed = lines_added(text_after, text_before),
	text_bytes = coalesce(octet_length(text_before), 0) + coalesce(octet_length(text_after), 0);
DROP INDEX config_revision_model;
CREATE INDEX config_revision_list ON config_revision
	(model, id, parent_id, time_us, source, restores_id, outcome, reason, added, removed, text_bytes);
