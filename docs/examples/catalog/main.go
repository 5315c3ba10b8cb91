// Command catalog is a small platform for nodes that run nereid serve --catalog=URL: it publishes the models of a
// folder. docs/catalog.md describes it.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"nereid/docs/examples/catalog/platform"
)

func main() {
	models := flag.String("models", "", "the folder of model folders that all nodes serve; it may change at any time")
	address := flag.String("address", "127.0.0.1:8090", "where the platform listens")
	tokenFile := flag.String("token-file", "", "the file with the token of the nodes; default: everybody may ask")
	cut := flag.Int64("cut", 0, "to try how a pull is resumed: the first answer with a file ends after so many bytes")
	flag.Parse()
	token := ""
	if *tokenFile != "" {
		b, err := os.ReadFile(*tokenFile)
		if err != nil {
			log.Fatal(err)
		}
		token = strings.TrimSpace(string(b))
	}
	l, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("The catalog is at http://%s\n", l.Addr())
	p := platform.New(platform.Options{Models: *models, Token: token, Cut: *cut})
	s := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(s.Serve(l))
}
