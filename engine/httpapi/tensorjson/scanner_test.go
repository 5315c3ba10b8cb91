package tensorjson

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestAppendFloat(t *testing.T) {
	for _, tt := range []struct {
		f    float64
		want string
	}{
		// FP32 values in the form of Triton 2.51: the shortest form of the double.
		{float64(float32(0.1)), "0.10000000149011612"},
		{float64(float32(1e-7)), "1.0000000116860974e-7"},
		{float64(float32(1e20)), "100000002004087730000.0"},
		{float64(float32(3.4e38)), "3.3999999521443644e38"},
		{math.Copysign(0, -1), "-0.0"},
		{float64(float32(1) / 3), "0.3333333432674408"},
		{float64(float32(123456.789)), "123456.7890625"},
		{16777216, "16777216.0"},
		{1, "1.0"},
		{float64(math.Float32frombits(1)), "1.401298464324817e-45"},
		{0, "0.0"},
		{2.5, "2.5"},
		{1e6, "1000000.0"},
		{1e7, "10000000.0"},
		{float64(float32(1e21)), "1.0000000200408774e21"},
		{math.NaN(), "NaN"},
		{math.Inf(1), "Infinity"},
		{math.Inf(-1), "-Infinity"},
		// FP64 values.
		{0.1, "0.1"},
		{1e-7, "1e-7"},
		{1e21, "1e21"},
		{1.0 / 3, "0.3333333333333333"},
		{5e-324, "5e-324"},
		{1e22, "1e22"},
		{123456789.125, "123456789.125"},
		{1e300, "1e300"},
		{-1e300, "-1e300"},
		// The edges of the forms.
		{1e-6, "0.000001"},
		{-1.5e-6, "-0.0000015"},
		{9.99e-7, "9.99e-7"},
		{1e15, "1000000000000000.0"},
		{999999999999999, "999999999999999.0"},
		{1234567890123456.5, "1234567890123456.6"}, // many digits: the last one is not adjusted
		{-2251799813685249.5, "-2251799813685249.7"},
		{1e20, "100000000000000000000.0"},
		{-1.25e20, "-125000000000000000000.0"},
		{9007199254740993, "9007199254740992.0"},
	} {
		if got := string(AppendFloat(nil, tt.f)); got != tt.want {
			t.Errorf("AppendFloat(%v) = %s, want %s", tt.f, got, tt.want)
		}
	}
}

func FuzzAppendFloat(f *testing.F) {
	for _, v := range []float64{0, 1.5, 1e15, 1e21, 4503599627370497.5, 1e-6, 5e-324, math.MaxFloat64} {
		f.Add(math.Float64bits(v))
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		v := math.Float64frombits(bits)
		text := string(AppendFloat(nil, v))
		s := Scanner{doc: []byte(text)}
		n, err := s.number()
		if err != nil || s.pos != len(text) {
			t.Fatalf("%s does not scan: %v", text, err)
		}
		if got := n.float(); got != v && !(math.IsNaN(got) && math.IsNaN(v)) {
			t.Fatalf("%v written as %s reads as %v", v, text, got)
		}
		if got, err := strconv.ParseFloat(text, 64); err != nil || got != v && !math.IsNaN(v) {
			t.Fatalf("%v written as %s: strconv reads %v, %v", v, text, got, err)
		}
		if len(text) > 26-1 {
			t.Fatalf("%s is longer than the encoder makes room for", text)
		}
	})
}

func TestAppendString(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `""`},
		{"bcé\n", `"bcé\n"`},
		{"\xff\x00", "\"\xff\\u0000\""},
		{"a\"b\\c/d", `"a\"b\\c/d"`},
		{"\b\f\r\t\x1f\x7f", "\"\\b\\f\\r\\t\\u001F\x7f\""},
	} {
		if got := string(AppendString(nil, tt.in)); got != tt.want {
			t.Errorf("AppendString(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// Numbers have the values that the standard library reads.
func TestNumbers(t *testing.T) {
	for _, text := range []string{"0", "-0", "7", "-9223372036854775808", "9223372036854775807", "18446744073709551615",
		"18446744073709551616", "123456789012345678901234567890", "0.1", "1.5e3", "-2.5E-3", "1e22", "1e23",
		"9007199254740993.0",
		"0.000000000000000000000000000123", "3.4e38", "1.7976931348623157e308", "5e-324", "1e-400",
		"12345678901234567890.5",
		"0.12345678901234567890123"} {
		s := Scanner{doc: []byte(text)}
		n, err := s.number()
		want, perr := strconv.ParseFloat(text, 64)
		if err != nil || perr != nil || n.float() != want || s.pos != len(text) {
			t.Errorf("number(%s) = %v, %v; want %v, %v", text, n.float(), err, want, perr)
		}
		wantInt, ierr := strconv.ParseInt(text, 10, 64)
		if v, ok := n.signed(); ok != (ierr == nil) || ok && v != wantInt {
			t.Errorf("signed(%s) = %d, %v; want %d, %v", text, v, ok, wantInt, ierr)
		}
		wantUint, uerr := strconv.ParseUint(strings.TrimPrefix(text, "-0"), 10, 64)
		if v, ok := n.unsigned(); text != "-0" && (ok != (uerr == nil) || ok && v != wantUint) {
			t.Errorf("unsigned(%s) = %d, %v; want %d, %v", text, v, ok, wantUint, uerr)
		}
	}
}

func TestSyntaxFaults(t *testing.T) {
	const prefix = "failed to parse the request JSON buffer: "
	for _, tt := range []struct{ doc, want string }{
		{``, "The document is empty. at 0"},
		{"  \n", "The document is empty. at 3"},
		{`{bad`, "Missing a name for object member. at 1"},
		{`{"a" 1}`, "Missing a colon after a name of object member. at 5"},
		{`{"a":1 "b":2}`, "Missing a comma or '}' after an object member. at 7"},
		{`[1 2]`, "Missing a comma or ']' after an array element. at 3"},
		{`[1,]`, "Invalid value. at 3"},
		{`[01]`, "Missing a comma or ']' after an array element. at 2"},
		{`nul`, "Invalid value. at 3"},
		{`[-]`, "Invalid value. at 2"},
		{`[1.]`, "Miss fraction part in number. at 3"},
		{`[1e]`, "Miss exponent in number. at 3"},
		{`[1e999]`, "Number too big to be stored in double. at 1"},
		{`"abc`, "Missing a closing quotation mark in string. at 4"},
		{"\"a\nb\"", "Invalid escape character in string. at 2"},
		{`"\x"`, "Invalid escape character in string. at 1"},
		{`"\u12g4"`, "Incorrect hex digit after \\u escape in string. at 1"},
		{`"\ud800x"`, "The surrogate pair in string is invalid. at 1"},
		{`"\udc00"`, "The surrogate pair in string is invalid. at 1"},
		{`{} x`, "The document root must not be followed by other values. at 3"},
		{strings.Repeat("[", 101), "Nesting deeper than 100 levels. at 100"},
		{`{"a":[1,2.5,-3e7,"x\n\ud83d\ude00",true,false,null,{}, [], NaN, -Infinity]} ` + "\x00junk", ""},
	} {
		err := checkSyntax([]byte(tt.doc))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("checkSyntax(%q) = %v, want no error", tt.doc, err)
		case tt.want != "" && (err == nil || err.Error() != prefix+tt.want):
			t.Errorf("checkSyntax(%q) = %v, want %q", tt.doc, err, prefix+tt.want)
		}
	}
}

// The scanner accepts the documents that the standard library accepts, except for the differences below.
func FuzzSyntax(f *testing.F) {
	for _, s := range []string{addSubJSON, `{"a":[1,2.5,-3e7,"x\n",true,null,{}]}`, `[`, `"\ud800"`, `{"a":1,}`,
		"1e5", "-"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := checkSyntax(doc)
		if strings.ContainsAny(string(doc), "\x00") || strings.Contains(string(doc), "NaN") ||
			strings.Contains(string(doc), "Inf") ||
			strings.Contains(string(doc), `\u`) || strings.Count(string(doc), "[")+
			strings.Count(string(doc), "{") > maxDepth {
			return // NUL ends a document, NaN and infinities are accepted, lone surrogates are not, depth is limited
		}
		if err != nil && strings.Contains(err.Error(), errNumberTooBig) {
			return
		}
		if valid := json.Valid(doc); valid != (err == nil) {
			t.Fatalf("checkSyntax(%q) = %v, json.Valid = %v", doc, err, valid)
		}
	})
}

// The fast conversion to float32 gives the value that the exact double rounds to.
func FuzzSingle(f *testing.F) {
	f.Add(uint64(1), int8(0), false)
	f.Add(uint64(16777217), int8(0), false)            // the middle of two float32
	f.Add(uint64(100000005960464477), int8(-17), true) // close to a middle
	f.Add(uint64(123456789012345678), int8(-17), false)
	f.Fuzz(func(t *testing.T, mag uint64, exp int8, neg bool) {
		text := strconv.FormatUint(mag, 10)
		if point := len(text) + int(exp); exp < 0 && point > 0 {
			text = text[:point] + "." + text[point:]
		} else {
			text += ".0e" + strconv.Itoa(int(exp))
		}
		if neg {
			text = "-" + text
		}
		s := Scanner{doc: []byte(text), single: true}
		n, err := s.number()
		want, perr := strconv.ParseFloat(text, 64)
		if err != nil || perr != nil || float32(n.float()) != float32(want) {
			t.Fatalf("%s reads as %v, %v; want %v, %v", text, float32(n.float()), err, float32(want), perr)
		}
	})
}

// Decimals around the middle of two float32 values, where rounding twice could go wrong, round correctly.
func TestSingleMiddles(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		v := math.Abs(float64(math.Float32frombits(rng.Uint32())))
		if !(v > 1e-3 && v < 1e12) {
			continue
		}
		next := float64(math.Nextafter32(float32(v), math.MaxFloat32))
		middle := v + (next-v)/2
		middle = math.Float64frombits(math.Float64bits(middle) + rng.Uint64N(64) - 32)
		text := strconv.FormatFloat(middle, 'f', 17-len(strconv.FormatFloat(math.Trunc(middle), 'f', 0, 64)), 64)
		s := Scanner{doc: []byte(text), single: true}
		n, err := s.number()
		want, perr := strconv.ParseFloat(text, 64)
		if err != nil || perr != nil || float32(n.float()) != float32(want) {
			t.Fatalf("%s reads as %v, %v; want %v, %v", text, float32(n.float()), err, float32(want), perr)
		}
	}
}
