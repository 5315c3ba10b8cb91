package frames

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// appendParameters writes parameters as a JSON object, in their order.
func appendParameters(b []byte, params []infer.Parameter) []byte {
	b = append(b, '{')
	for i := range params {
		p := &params[i]
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendString(b, p.Name)
		b = append(b, ": "...)
		switch p.Kind {
		case infer.BoolParameter:
			b = strconv.AppendBool(b, p.Bool)
		case infer.IntParameter:
			b = strconv.AppendInt(b, p.Int, 10)
		case infer.UintParameter:
			b = strconv.AppendUint(b, p.Uint, 10)
		case infer.FloatParameter:
			b = appendFloat(b, p.Float)
		case infer.StringParameter:
			b = appendString(b, p.Text)
		}
	}
	return append(b, '}')
}

// appendFloat writes a number in a form that is not read as an integer. NaN and infinity, which JSON does not have, are
// null.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	at := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	if bytes.ContainsAny(b[at:], ".e") {
		return b
	}
	return append(b, ".0"...)
}

func appendString(b []byte, s string) []byte {
	plain := utf8.ValidString(s)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	text, _ := json.Marshal(s) // never fails for a string
	return append(b, text...)
}

// parseParameters appends the members of a JSON object to params.
func parseParameters(b []byte, params []infer.Parameter) ([]infer.Parameter, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return params, status.New(status.Internal, "parameters are not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return params, status.Errorf(status.Internal, "parameters: %w", err)
		}
		p := infer.Parameter{Name: name.(string)} // the decoder returns only strings before colons
		v, err := d.Token()
		if err != nil {
			return params, status.Errorf(status.Internal, "parameters: %w", err)
		}
		switch v := v.(type) {
		case bool:
			p.Kind, p.Bool = infer.BoolParameter, v
		case string:
			p.Kind, p.Text = infer.StringParameter, v
		case json.Number:
			setNumber(&p, string(v))
		default:
			return params, status.Errorf(status.Internal,
				"parameter '%s' is neither a string nor a number nor a bool", p.Name)
		}
		params = append(params, p)
	}
	if _, err := d.Token(); err != nil {
		return params, status.Errorf(status.Internal, "parameters: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return params, status.New(status.Internal, "there is something after the JSON object of the parameters")
	}
	return params, nil
}

func setNumber(p *infer.Parameter, v string) {
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		p.Kind, p.Int = infer.IntParameter, n
		return
	}
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		p.Kind, p.Uint = infer.UintParameter, n
		return
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil { // out of range: use the nearest number
		f = math.Copysign(math.MaxFloat64, f)
	}
	p.Kind, p.Float = infer.FloatParameter, f
}
