package fakeredis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// What bytes make an answer: a letter for its kind, then what belongs to it. Any bytes make some
// answer, which is what a fuzzer needs, and Written makes the bytes of an answer that is wanted.
const (
	textKind    = 's' // length in one byte, then so many bytes
	longKind    = 'S' // length in two bytes
	integerKind = 'i' // a varint
	doubleKind  = 'd' // eight bytes
	nullKind    = 'n'
	trueKind    = 't'
	falseKind   = 'f'
	errorKind   = 'e' // as textKind
	listKind    = 'l' // how many in one byte, then these
	mapKind     = 'm' // how many pairs in one byte
	setKind     = 'u' // as listKind
)

var kinds = []byte{textKind, longKind, integerKind, doubleKind, nullKind, trueKind, falseKind, errorKind, listKind, mapKind, setKind}

const (
	deepest = 6    // lists in lists
	most    = 4096 // elements in one answer
)

// Map is an answer of pairs: key, value, key, value …
type Map []any

// Err is an answer that refuses.
type Err string

// Written are the bytes that make these answers: strings, ints, float64s, bools, nil, Err, Map and
// lists of all these.
func Written(answers ...any) []byte {
	var out []byte
	for _, answer := range answers {
		out = write(out, answer)
	}
	return out
}

func write(out []byte, answer any) []byte {
	text := func(kind byte, s string) []byte {
		if len(s) > 255 {
			s = s[:min(len(s), 65535)]
			return append(append(out, longKind, byte(len(s)>>8), byte(len(s))), s...)
		}
		return append(append(out, kind, byte(len(s))), s...)
	}
	switch v := answer.(type) {
	case nil:
		return append(out, nullKind)
	case string:
		return text(textKind, v)
	case Err:
		return text(errorKind, string(v))
	case int:
		return binary.AppendVarint(append(out, integerKind), int64(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(out, doubleKind), math.Float64bits(v))
	case bool:
		if v {
			return append(out, trueKind)
		}
		return append(out, falseKind)
	case Map:
		out = append(out, mapKind, byte(len(v)/2))
		for _, element := range v[:len(v)/2*2] {
			out = write(out, element)
		}
		return out
	case []any:
		out = append(out, listKind, byte(len(v)))
		for _, element := range v {
			out = write(out, element)
		}
		return out
	case []string:
		out = append(out, listKind, byte(len(v)))
		for _, element := range v {
			out = write(out, element)
		}
		return out
	default:
		panic(fmt.Sprintf("fakeredis: no answer is a %T", answer))
	}
}

// reader takes bytes apart into answers in Redis's own form.
type reader struct {
	rest []byte
	left int // elements that the answer may still have
}

func (r *reader) next() byte {
	if len(r.rest) == 0 {
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) take(n int) []byte {
	n = min(n, len(r.rest))
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// answer writes the next answer into out.
func (r *reader) answer(out *bytes.Buffer, depth int) {
	r.left--
	kind := r.next()
	if bytes.IndexByte(kinds, kind) < 0 {
		kind = kinds[int(kind)%len(kinds)]
	}
	if depth >= deepest && (kind == listKind || kind == mapKind || kind == setKind) {
		kind = nullKind
	}
	switch kind {
	case textKind:
		writeText(out, r.take(int(r.next())))
	case longKind:
		writeText(out, r.take(int(r.next())<<8|int(r.next())))
	case integerKind:
		n, used := binary.Varint(r.rest)
		r.rest = r.rest[max(used, 0):]
		fmt.Fprintf(out, ":%d\r\n", n)
	case doubleKind:
		var bits [8]byte
		copy(bits[:], r.take(8))
		text := strconv.FormatFloat(math.Float64frombits(binary.BigEndian.Uint64(bits[:])), 'g', -1, 64)
		fmt.Fprintf(out, ",%s\r\n", strings.ToLower(strings.Replace(text, "+Inf", "inf", 1)))
	case trueKind:
		out.WriteString("#t\r\n")
	case falseKind:
		out.WriteString("#f\r\n")
	case errorKind:
		text := strings.NewReplacer("\r", " ", "\n", " ").Replace(string(r.take(int(r.next()))))
		fmt.Fprintf(out, "-%s\r\n", text)
	case listKind:
		r.elements(out, '*', 1, depth)
	case setKind:
		r.elements(out, '~', 1, depth)
	case mapKind:
		r.elements(out, '%', 2, depth)
	default:
		out.WriteString("_\r\n")
	}
}

func (r *reader) elements(out *bytes.Buffer, kind byte, each, depth int) {
	n := min(int(r.next()), max(r.left, 0)/each)
	fmt.Fprintf(out, "%c%d\r\n", kind, n)
	for range n * each {
		r.answer(out, depth+1)
	}
}

func writeText(out *bytes.Buffer, text []byte) {
	fmt.Fprintf(out, "$%d\r\n%s\r\n", len(text), text)
}
