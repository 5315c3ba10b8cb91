-- Requests that were kept, without their contents. Times of phases are in nanoseconds.
CREATE TABLE request (
	id             INTEGER PRIMARY KEY, -- rises; about when it began, in microseconds since 1970
	time_us        INTEGER NOT NULL,
	parent         INTEGER NOT NULL,    -- the request that made it; 0: a client did
	protocol       TEXT    NOT NULL,
	client         TEXT    NOT NULL,
	model          TEXT    NOT NULL,
	version        INTEGER NOT NULL,
	request_id     TEXT    NOT NULL,    -- of the client
	outcome        TEXT    NOT NULL,
	slow           INTEGER NOT NULL,
	cached         INTEGER NOT NULL,
	status         INTEGER NOT NULL,
	cause          TEXT    NOT NULL,
	text           TEXT    NOT NULL,
	target         TEXT    NOT NULL,
	bytes_in       INTEGER NOT NULL,
	bytes_out      INTEGER NOT NULL,
	responses      INTEGER NOT NULL,
	batch_size     INTEGER NOT NULL,
	instance       TEXT    NOT NULL,
	batch_rows     INTEGER NOT NULL,
	batch_requests INTEGER NOT NULL,
	receive_ns     INTEGER NOT NULL,
	check_ns       INTEGER NOT NULL,
	queue_ns       INTEGER NOT NULL,
	input_ns       INTEGER NOT NULL,
	compute_ns     INTEGER NOT NULL,
	output_ns      INTEGER NOT NULL,
	encode_ns      INTEGER NOT NULL,
	send_ns        INTEGER NOT NULL,
	busy_ns        INTEGER NOT NULL,
	busy_rows      INTEGER NOT NULL,
	busy_requests  INTEGER NOT NULL,
	words          TEXT    NOT NULL -- what a search reads: names and texts, each between two line feeds
) STRICT;
-- Every filter reads only one of these indexes, whose rows are small, and looks up few requests.
CREATE INDEX request_filter ON request (id, parent, words);
CREATE INDEX request_problem ON request (id, parent, outcome, slow, words) WHERE outcome <> 'ok' OR slow;
CREATE INDEX request_parent ON request (parent) WHERE parent <> 0;
