-- Who may use the server's protocols. The token itself is never stored.
CREATE TABLE access_token (
	id         TEXT    PRIMARY KEY, -- public: names the token in lists and logs
	name       TEXT    NOT NULL UNIQUE,
	scopes     TEXT    NOT NULL,    -- infer, control, admin, with commas
	hash       BLOB    NOT NULL UNIQUE, -- SHA-256 of the token, which has 160 random bits
	created_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
