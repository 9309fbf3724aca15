package faultproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readFrame reads one complete command or reply of RESP 2 or 3 and returns its bytes unchanged. On an error
// it returns the bytes read so far.
func readFrame(from *bufio.Reader) ([]byte, error) {
	var frame []byte
	for missing := 1; missing > 0; missing-- {
		line, err := from.ReadBytes('\n')
		frame = append(frame, line...)
		if err != nil {
			return frame, err
		}
		if strings.IndexByte("$=!*~>%|", line[0]) < 0 {
			continue // a single line, such as a number or an inline command
		}
		count, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		if err != nil {
			return frame, fmt.Errorf("%q isn't RESP", line)
		}
		if count < 0 {
			continue // null
		}
		switch line[0] {
		case '$', '=', '!':
			body := make([]byte, count+len("\r\n"))
			n, err := io.ReadFull(from, body)
			frame = append(frame, body[:n]...)
			if err != nil {
				return frame, err
			}
		case '*', '~', '>':
			missing += count
		case '%':
			missing += 2 * count
		case '|': // attributes, followed by the reply they belong to
			missing += 2*count + 1
		}
	}
	return frame, nil
}

// isPush reports whether a reply was pushed by the server without a command.
func isPush(reply []byte) bool { return len(reply) > 0 && reply[0] == '>' }

// words returns a command as it would be typed, with its arguments separated by spaces.
func words(command []byte) string {
	if len(command) == 0 || command[0] != '*' {
		return string(bytes.TrimSpace(command))
	}
	var arguments []string
	_, rest, _ := bytes.Cut(command, []byte("\r\n"))
	for len(rest) > 0 {
		head, body, _ := bytes.Cut(rest, []byte("\r\n"))
		length, err := strconv.Atoi(strings.TrimPrefix(string(head), "$"))
		if err != nil || length < 0 || length+2 > len(body) {
			break
		}
		arguments = append(arguments, string(body[:length]))
		rest = body[length+2:]
	}
	return strings.Join(arguments, " ")
}
