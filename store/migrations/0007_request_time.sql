-- A filter by time reads the index too. The time may be any other than the ID says, because the clock may be set.
DROP INDEX request_filter;
DROP INDEX request_problem;
CREATE INDEX request_filter ON request (id, time_us, parent, words);
CREATE INDEX request_problem ON request (id, time_us, parent, outcome, slow, words) WHERE outcome <> 'ok' OR slow;
