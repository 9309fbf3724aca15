package fakeredis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A reply is encoded as a byte for its kind, followed by its content. Any sequence of bytes can be decoded,
// because a fuzzer needs that. [Encode] encodes given replies.
const (
	textKind    = 's' // length in one byte, then the text
	longKind    = 'S' // length in two bytes, then the text
	integerKind = 'i' // a varint
	doubleKind  = 'd' // eight bytes
	nullKind    = 'n'
	trueKind    = 't'
	falseKind   = 'f'
	errorKind   = 'e' // like textKind
	listKind    = 'l' // number of elements in one byte, then the elements
	mapKind     = 'm' // number of pairs in one byte, then the pairs
	setKind     = 'u' // like listKind
)

var kinds = []byte{textKind, longKind, integerKind, doubleKind, nullKind, trueKind, falseKind, errorKind, listKind, mapKind, setKind}

const (
	maxDepth    = 6    // maximum nesting of lists
	maxElements = 4096 // maximum number of elements in one reply
)

// Map is a reply of alternating keys and values.
type Map []any

// Err is an error reply.
type Err string

// Encode returns the encoding of the given replies. A reply is a string, int, float64, bool, nil, [Err],
// [Map] or a list of these.
func Encode(replies ...any) []byte {
	var out []byte
	for _, reply := range replies {
		out = write(out, reply)
	}
	return out
}

func write(out []byte, reply any) []byte {
	text := func(kind byte, s string) []byte {
		if len(s) > 255 {
			s = s[:min(len(s), 65535)]
			return append(append(out, longKind, byte(len(s)>>8), byte(len(s))), s...)
		}
		return append(append(out, kind, byte(len(s))), s...)
	}
	switch v := reply.(type) {
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
		panic(fmt.Sprintf("fakeredis: cannot encode a reply of type %T", reply))
	}
}

// reader decodes bytes into replies in Redis's wire format.
type reader struct {
	rest []byte
	left int // elements that the current reply may still have
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

// reply writes the next reply to out.
func (r *reader) reply(out *bytes.Buffer, depth int) {
	r.left--
	kind := r.next()
	if bytes.IndexByte(kinds, kind) < 0 {
		kind = kinds[int(kind)%len(kinds)]
	}
	if depth >= maxDepth && (kind == listKind || kind == mapKind || kind == setKind) {
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
		r.reply(out, depth+1)
	}
}

func writeText(out *bytes.Buffer, text []byte) {
	fmt.Fprintf(out, "$%d\r\n%s\r\n", len(text), text)
}
