package catalog

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"os"
	"time"
)

// blobPath is where a node serves its files to other nodes.
const blobPath = "/v1/files/"

// peerToken is what a node shows to another one to get a file. Nobody can make the catalog's token of it, or the one of
// another file.
func peerToken(token, digest string) string {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte("nereid catalog file " + digest))
	return hex.EncodeToString(h.Sum(nil))
}

// Handler serves the node's files to other nodes of the catalog: GET /v1/files/<SHA-256>, also in ranges.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+blobPath+"{digest}", func(w http.ResponseWriter, r *http.Request) {
		digest := r.PathValue("digest")
		token, err := n.platform.token()
		given, want := r.Header.Get("Authorization"), "Bearer "+peerToken(token, digest)
		if err != nil || token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(want)) != 1 {
			http.Error(w, "this needs the token of a node of the catalog", http.StatusUnauthorized)
			return
		}
		if !sha256Hex.MatchString(digest) {
			http.NotFound(w, r)
			return
		}
		f, err := os.Open(n.files.path(digest))
		if err != nil {
			http.Error(w, "this node does not have the file", http.StatusNotFound)
			return
		}
		defer f.Close()
		w.Header().Set("ETag", `"`+digest+`"`)
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, f)
	})
	return mux
}
