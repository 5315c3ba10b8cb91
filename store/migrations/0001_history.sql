-- One series is one version of one model.
CREATE TABLE series (
	id      INTEGER PRIMARY KEY,
	model   TEXT    NOT NULL,
	version INTEGER NOT NULL,
	UNIQUE (model, version)
) STRICT;

-- What a series did in the second, minute or hour that begins at start_us. Sums, so rows can be added.
CREATE TABLE sample_second (
	series_id         INTEGER NOT NULL REFERENCES series (id),
	start_us          INTEGER NOT NULL,
	requests          INTEGER NOT NULL,
	successes         INTEGER NOT NULL,
	rejected          INTEGER NOT NULL,
	canceled          INTEGER NOT NULL,
	backend_errors    INTEGER NOT NULL,
	other_errors      INTEGER NOT NULL,
	inferences        INTEGER NOT NULL,
	executions        INTEGER NOT NULL,
	batch_rows        INTEGER NOT NULL,
	queue_ns          INTEGER NOT NULL,
	compute_input_ns  INTEGER NOT NULL,
	compute_infer_ns  INTEGER NOT NULL,
	compute_output_ns INTEGER NOT NULL,
	request_ns        INTEGER NOT NULL,
	latency           BLOB, -- histogram of request durations, see histogram.go
	PRIMARY KEY (series_id, start_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample_minute (
	series_id         INTEGER NOT NULL REFERENCES series (id),
	start_us          INTEGER NOT NULL,
	requests          INTEGER NOT NULL,
	successes         INTEGER NOT NULL,
	rejected          INTEGER NOT NULL,
	canceled          INTEGER NOT NULL,
	backend_errors    INTEGER NOT NULL,
	other_errors      INTEGER NOT NULL,
	inferences        INTEGER NOT NULL,
	executions        INTEGER NOT NULL,
	batch_rows        INTEGER NOT NULL,
	queue_ns          INTEGER NOT NULL,
	compute_input_ns  INTEGER NOT NULL,
	compute_infer_ns  INTEGER NOT NULL,
	compute_output_ns INTEGER NOT NULL,
	request_ns        INTEGER NOT NULL,
	latency           BLOB,
	PRIMARY KEY (series_id, start_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample_hour (
	series_id         INTEGER NOT NULL REFERENCES series (id),
	start_us          INTEGER NOT NULL,
	requests          INTEGER NOT NULL,
	successes         INTEGER NOT NULL,
	rejected          INTEGER NOT NULL,
	canceled          INTEGER NOT NULL,
	backend_errors    INTEGER NOT NULL,
	other_errors      INTEGER NOT NULL,
	inferences        INTEGER NOT NULL,
	executions        INTEGER NOT NULL,
	batch_rows        INTEGER NOT NULL,
	queue_ns          INTEGER NOT NULL,
	compute_input_ns  INTEGER NOT NULL,
	compute_infer_ns  INTEGER NOT NULL,
	compute_output_ns INTEGER NOT NULL,
	request_ns        INTEGER NOT NULL,
	latency           BLOB,
	PRIMARY KEY (series_id, start_us)
) STRICT, WITHOUT ROWID;

-- When a series was loaded, from from_us to at least to_us: tells an idle second from one not served.
CREATE TABLE span (
	series_id INTEGER NOT NULL REFERENCES series (id),
	from_us   INTEGER NOT NULL,
	to_us     INTEGER NOT NULL,
	PRIMARY KEY (series_id, from_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
	id      INTEGER PRIMARY KEY,
	time_us INTEGER NOT NULL,
	kind    TEXT    NOT NULL,
	model   TEXT    NOT NULL, -- '' when it is about no model
	version INTEGER NOT NULL, -- 0 when it is about no version
	reason  TEXT    NOT NULL,
	detail  TEXT              -- JSON or NULL
) STRICT;
CREATE INDEX event_time ON event (time_us);
CREATE INDEX event_model ON event (model, time_us);

CREATE TABLE config_revision (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	parent_id   INTEGER,          -- the revision of the same model before this one
	model       TEXT    NOT NULL,
	time_us     INTEGER NOT NULL,
	source      TEXT    NOT NULL, -- what made it: console, import, disk, restore
	restores_id INTEGER,          -- the revision whose text it brings back
	author      TEXT    NOT NULL,
	text_before TEXT,             -- NULL: there was no config.pbtxt
	text_after  TEXT,             -- NULL: config.pbtxt is removed
	outcome     TEXT    NOT NULL, -- what became of it, '' while unknown
	reason      TEXT    NOT NULL  -- why it failed
) STRICT;
CREATE INDEX config_revision_model ON config_revision (model, id);

CREATE TABLE setting (
	key        TEXT PRIMARY KEY,
	value      TEXT    NOT NULL, -- JSON
	changed_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
