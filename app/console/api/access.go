package api

// Access answers GET /api/access. It lists the tokens and the addresses on which the server listens.
type Access struct {
	// Asked: clients must send a token.
	Asked bool `json:"asked"`
	// Environment: the variable NEREID_TOKEN has another token, with the scope admin.
	Environment bool              `json:"environment"`
	Tokens      List[AccessToken] `json:"tokens"`
	Network     Network           `json:"network"`
}

// OpenSession lets a browser use the interface whose user is not that of the server, or is not known.
type OpenSession struct {
	// Secret is that of a link of the command nereid link, or a token with the scope admin or view.
	Secret string `json:"secret"`
}

// AccessToken is a token without its text.
type AccessToken struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Scopes are infer, control and admin.
	Scopes    List[string] `json:"scopes"`
	CreatedMs int64        `json:"createdMs"`
	// UsedMs is the second of the last use; 0: not since the start of this server.
	UsedMs int64 `json:"usedMs"`
}

// NewToken makes a token.
type NewToken struct {
	Name   string       `json:"name"`
	Scopes List[string] `json:"scopes"`
}

// MadeToken is a token that was just made.
type MadeToken struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Token is its text, which is shown only once.
	Token string `json:"token"`
}

// Network says whether other machines can reach the server.
type Network struct {
	Open bool `json:"open"`
	// Address that is open, empty: all of them.
	Address string `json:"address"`
	// LocalFree: programs on this machine need no token.
	LocalFree bool `json:"localFree"`
	// Fixed: options of the command line decide this; the page cannot change it.
	Fixed bool `json:"fixed"`
	// Choices are this machine's addresses.
	Choices List[string]  `json:"choices"`
	Reached List[Reached] `json:"reached"`
	// Problems say what could not be opened.
	Problems List[string] `json:"problems"`
}

// Reached is the address of one service for other machines.
type Reached struct {
	// Service is http, grpc or metrics.
	Service string `json:"service"`
	URL     string `json:"url"`
}

// SetNetwork opens the server to other machines or closes it.
type SetNetwork struct {
	Open      bool   `json:"open"`
	Address   string `json:"address"`
	LocalFree bool   `json:"localFree"`
}
