-- In the order of time, what is written at once is on few pages, so that an idle server writes little.
CREATE TABLE gauge_by_time (
	start_us INTEGER NOT NULL,
	name     TEXT    NOT NULL,
	model    TEXT    NOT NULL,
	mean     REAL    NOT NULL,
	most     REAL    NOT NULL,
	PRIMARY KEY (start_us, name, model)
) STRICT, WITHOUT ROWID;
INSERT INTO gauge_by_time SELECT start_us, name, model, mean, most FROM gauge;
DROP TABLE gauge;
ALTER TABLE gauge_by_time RENAME TO gauge;
