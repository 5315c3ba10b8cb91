-- Searches for a model's best configuration. What they are is the console's: JSON.
CREATE TABLE tuning (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	model      TEXT    NOT NULL,
	started_us INTEGER NOT NULL,
	head       TEXT    NOT NULL, -- what a list shows
	body       TEXT    NOT NULL  -- all of it
) STRICT;
CREATE INDEX tuning_model ON tuning (model, id);
