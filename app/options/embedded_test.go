package options

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A server inside another program opens only the ports that its options name, and may have none.
func TestAnEmbeddedServerOpensNoPort(t *testing.T) {
	c, err := LoadEmbedded([]string{"--model-repository=/models"}, none)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range c.Listen.All() {
		if e.On {
			t.Errorf("the %s is on", e.Title)
		}
	}
	if c, err = LoadEmbedded([]string{"--allow-http=true"}, none); err != nil || !c.Listen.HTTP.On {
		t.Errorf("--allow-http=true: on %v, %v", c.Listen.HTTP.On, err)
	}
}

// docs/embed.md lists the keywords of nereid.Server without effect.
func TestTheManualListsWhatHasNoEffectInAProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/embed.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "These keywords are accepted without effect")
	text, _, _ = strings.Cut(text, "**Threads.**")
	var listed []string
	for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(text, -1) {
		listed = append(listed, strings.ReplaceAll(name[1], "_", "-"))
	}
	want := slices.Clone(notEmbedded)
	for _, g := range Default(false).table() {
		for _, o := range g.options {
			if o.noEffect {
				want = append(want, o.names[0])
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the page lists\n%q, want\n%q", listed, want)
	}
}

// Options for GPUs and for service managers do nothing in a program, and the log says so.
func TestOptionsWithoutEffectInAProgramAreNamed(t *testing.T) {
	c, err := LoadEmbedded([]string{"--model-repository=/models", "--watchdog-model=m", "--enable-peer-access=true",
		"--cuda-memory-pool-byte-size=0:1", "--log-verbose=1"}, none)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(c.WithoutEffect)
	if want := []string{"cuda-memory-pool-byte-size", "enable-peer-access", "watchdog-model"}; !slices.Equal(
		c.WithoutEffect, want) {
		t.Errorf("without effect are %q, want %q", c.WithoutEffect, want)
	}
}
