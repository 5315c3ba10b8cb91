package options

import "testing"

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
