package admin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"nereid/engine/device"
)

// card is a machine with one card.
type card struct{}

func (card) GPUs() ([]device.GPU, error) {
	return []device.GPU{{UUID: "GPU-a-b", Name: "A card", Major: 8, Minor: 6, MemoryBytes: 24 << 30}}, nil
}
func (card) Close() error { return nil }
func (card) Read(string) (device.Reading, error) {
	return device.Reading{MemoryUsed: 3 << 30, MemoryTotal: 24 << 30, Power: 58.9,
		Known: device.HasMemory | device.HasPower}, nil
}

func TestDevicesAreShown(t *testing.T) {
	m, err := device.NewMachine(device.Options{Driver: card{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printDevices(&out, m); err != nil {
		t.Fatal(err)
	}
	row := strings.Join(strings.Fields(out.String()[strings.LastIndex(strings.TrimSpace(out.String()), "\n"):]), " ")
	if row != "0 0 GPU-a-b A card 8.6 24576 MiB 3072 MiB - 59 W -" {
		t.Errorf("the card is shown as %q", row)
	}
	out.Reset()
	if err := printDevices(&out, nil); err != nil || !strings.Contains(out.String(), "GPU: none") {
		t.Errorf("without cards: %q, %v", &out, err)
	}
}
