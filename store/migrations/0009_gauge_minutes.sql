-- A series that does not change has one row for as many minutes, at most 60.
ALTER TABLE gauge ADD COLUMN minutes INTEGER NOT NULL DEFAULT 1;
