package triton

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
)

const (
	maxHeader  = 16 << 20 // bytes of a message's value
	maxContent = 1 << 31  // bytes of its data
	wholeAt    = 4 << 20  // bytes of a part that are allocated at once
)

// messages are sent between the server and the process of a cache, an agent or a strategy. Each consists of the sizes
// of its two parts as little-endian uint32, a JSON value, and data.
type messages struct {
	in  *bufio.Reader
	out io.Writer
}

func newMessages(conn io.ReadWriter) messages { return messages{bufio.NewReader(conn), conn} }

func (m *messages) send(value any, data []byte) error {
	header, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(header) > maxHeader || len(data) > maxContent {
		return fmt.Errorf("a message of %d and %d bytes is too large", len(header), len(data))
	}
	b := make([]byte, 0, 8+len(header))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	parts := net.Buffers{append(b, header...), data}
	_, err = parts.WriteTo(m.out)
	return err
}

// receive decodes the value of the next message and returns its data. The error is io.EOF if there is no message.
func (m *messages) receive(value any) ([]byte, error) {
	var sizes [8]byte
	if _, err := io.ReadFull(m.in, sizes[:]); err != nil {
		return nil, err
	}
	header, data := binary.LittleEndian.Uint32(sizes[:]), binary.LittleEndian.Uint32(sizes[4:])
	if header > maxHeader || data > maxContent {
		return nil, fmt.Errorf("a message says that it has %d and %d bytes, which is too large", header, data)
	}
	text, err := m.read(int64(header))
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		return nil, fmt.Errorf("a message is damaged: %w", err)
	}
	return m.read(int64(data))
}

// read reads n bytes. It takes memory for more than wholeAt as they come, because the other side may have only claimed
// them.
func (m *messages) read(n int64) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, min(n, wholeAt)+bytes.MinRead))
	if _, err := io.CopyN(b, m.in, n); err != nil {
		return nil, fmt.Errorf("a message ends early: %w", err)
	}
	return b.Bytes(), nil
}
