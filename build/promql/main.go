// Promql reads rules and queries with Prometheus's own parsers and prints what they use. The conformance tests compare
// that with the metrics of a server. It is a module of its own, so that the product does not depend on Prometheus.
//
// The standard input is a JSON object of type input, the standard output one of type output.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

type input struct {
	Rules   string   `json:"rules"`   // a rule file; "" for none
	Queries []string `json:"queries"` // in PromQL
}

type output struct {
	Rules   []rule  `json:"rules"`
	Queries [][]use `json:"queries"` // of each query of the input
}

type rule struct {
	Alert string `json:"alert"`
	Expr  string `json:"expr"`
	Uses  []use  `json:"uses"`
}

// use is a metric of a query with the labels that the query matches or groups by.
type use struct {
	Metric string            `json:"metric"`
	Equal  map[string]string `json:"equal"` // the values that labels must have
	Labels []string          `json:"labels"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	var out output
	p := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.Parse([]byte(in.Rules), false, model.LegacyValidation, p, slog.Default())
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			uses, err := usesOf(p, r.Expr)
			if err != nil {
				return err
			}
			out.Rules = append(out.Rules, rule{Alert: r.Alert, Expr: r.Expr, Uses: uses})
		}
	}
	for _, q := range in.Queries {
		uses, err := usesOf(p, q)
		if err != nil {
			return err
		}
		out.Queries = append(out.Queries, uses)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func usesOf(p parser.Parser, query string) (uses []use, err error) {
	expr, err := p.ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		u := use{Metric: s.Name, Equal: map[string]string{}}
		for _, m := range s.LabelMatchers {
			if m.Name == model.MetricNameLabel {
				continue
			}
			u.Labels = append(u.Labels, m.Name)
			if m.Type == labels.MatchEqual {
				u.Equal[m.Name] = m.Value
			}
		}
		for _, above := range path {
			if a, ok := above.(*parser.AggregateExpr); ok {
				u.Labels = append(u.Labels, a.Grouping...)
			}
		}
		slices.Sort(u.Labels)
		u.Labels = slices.Compact(u.Labels)
		uses = append(uses, u)
		return nil
	})
	return uses, nil
}
