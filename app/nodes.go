package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"nereid/app/catalog"
	"nereid/app/console/models"
	"nereid/engine/repo/cloud"
)

// maxPeers is how many nodes may fetch files of this one at one time.
const maxPeers = 16

// catalogNode is the part of the server that a platform's catalog decides about.
type catalogNode struct {
	node   *catalog.Node
	peers  net.Listener // nil: other nodes get no files here
	cancel context.CancelFunc
}

// openCatalog adds the repository of the catalog's models, before any is loaded.
func (s *server) openCatalog() error {
	o := s.c.Catalog
	if o.URL == nil {
		return nil
	}
	if o.TokenFile != "" {
		if b, err := os.ReadFile(o.TokenFile); err != nil {
			return fmt.Errorf("--catalog-token-file: %w", err)
		} else if strings.TrimSpace(string(b)) == "" {
			return fmt.Errorf("--catalog-token-file: %s is empty", o.TokenFile)
		}
	}
	e := &s.c.Engine
	node, err := catalog.Open(catalog.Options{
		URL: o.URL, Name: o.Node, TokenFile: o.TokenFile, Interval: o.Interval, AllowCode: o.AllowCode,
		Folder: s.data.Join("catalog"), Repositories: e.Repositories, Remotes: s.repos.remotes,
		Namespaces: e.Namespaces,
		Trash:      &models.Trash{Dir: s.data.Join("trash")}, Cloud: cloud.Options{Lookup: os.LookupEnv, Log: s.log},
		Version: "nereid " + Version, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.catalog = &catalogNode{node: node}
	e.Repositories, e.Yielding = append(slices.Clone(e.Repositories), node.Repository()), node.Repository()
	if o.Peer == "" {
		return nil
	}
	at := o.PeerEndpoint()
	if s.catalog.peers, err = at.Open(); err != nil {
		return err
	}
	node.SetPeer("http://" + peerAddress(s.catalog.peers.Addr().(*net.TCPAddr).AddrPort(), reachableAddresses()))
	return nil
}

// peerAddress is the address by which other machines know a listener: for all addresses the first of this machine, for
// all of IPv4 the first of those.
func peerAddress(at netip.AddrPort, own []netip.Addr) string {
	for _, a := range own {
		if all := at.Addr(); all.IsUnspecified() && (all.Is6() || a.Is4()) {
			return netip.AddrPortFrom(a, at.Port()).String()
		}
	}
	return at.String()
}

// startCatalog follows the catalog, when the models that are there are loaded.
func (s *server) startCatalog() {
	c := s.catalog
	if c == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	s.tasks.spawn(func() error { c.node.Run(ctx, s.engine); return nil })
	if c.peers != nil {
		h := &http.Server{Handler: s.fronts.guards["peer"].Handler(c.node.Handler()),
			ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		s.fronts.servePlain(s.fronts.wrapTLS("peer", c.peers), h)
		s.log.Info("Started catalog peer at " + c.peers.Addr().String())
	}
}

// stop ends the pulls and the changes of models.
func (c *catalogNode) stop() {
	if c == nil {
		return
	}
	if c.cancel != nil {
		c.cancel()
	} else if c.peers != nil {
		_ = c.peers.Close() // nothing was served there
	}
}
