package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Path returns a path such as $.items[2].price. It is the path of the value that ends
// at the offset, or of the array or object that begins there.
func Path(text []byte, offset int64) string {
	type level struct {
		object bool
		key    string // of the current member of an object
		index  int    // of the current element of an array
		atKey  bool   // the next token is a key
	}
	var levels []level
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		in := len(levels) - 1
		if in >= 0 && levels[in].atKey && token != json.Delim('}') {
			levels[in].key, levels[in].atKey = fmt.Sprint(token), false
			continue
		}
		if decoder.InputOffset() >= offset {
			break
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			levels = append(levels, level{object: token == json.Delim('{'), atKey: token == json.Delim('{')})
			continue
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:in]
			in--
		}
		if in >= 0 { // a value has ended
			levels[in].index++
			levels[in].atKey = levels[in].object
		}
	}
	path := "$"
	for _, l := range levels {
		if l.object {
			path += "." + l.key
		} else {
			path += "[" + strconv.Itoa(l.index) + "]"
		}
	}
	return path
}
