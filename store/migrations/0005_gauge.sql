-- What the machine and the models took in the minute that begins at start_us. An empty model: the machine.
CREATE TABLE gauge (
	name     TEXT    NOT NULL,
	model    TEXT    NOT NULL,
	start_us INTEGER NOT NULL,
	mean     REAL    NOT NULL,
	most     REAL    NOT NULL,
	PRIMARY KEY (name, model, start_us)
) STRICT, WITHOUT ROWID;
CREATE INDEX gauge_time ON gauge (start_us);
