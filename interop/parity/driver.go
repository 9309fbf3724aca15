package parity

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Response is a driver's response to one request.
type Response struct {
	Result json.RawMessage // JSON text; null if there is no result
	Error  *Refusal        // set if the library returned an error
}

// Refusal is an error of a library.
type Refusal struct {
	Message string `json:"message"`
	Code    *int   `json:"code"` // the library's code, if a script returned the error
}

func (r *Refusal) String() string {
	if r.Code == nil {
		return fmt.Sprintf("error %q", r.Message)
	}
	return fmt.Sprintf("error %d %q", *r.Code, r.Message)
}

// driver is a running driver program. It has one request in flight at a time.
type driver struct {
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	responses chan rawResponse
	ended     chan struct{} // closed when the program has exited
	endErr    error         // result of the exit, valid once ended is closed
	stderr    tail
	nextID    int
}

type rawResponse struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *Refusal        `json:"error"`

	unreadable string // the line, if it is not a response
}

func startDriver(cmd *exec.Cmd) (*driver, error) {
	d := &driver{cmd: cmd, responses: make(chan rawResponse, 1), ended: make(chan struct{})}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.stdin = stdin
	cmd.Stderr = &d.stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start driver %s: %w", strings.Join(cmd.Args, " "), err)
	}
	go d.read(stdout)
	return d, nil
}

func (d *driver) read(stdout io.Reader) {
	reader := bufio.NewReader(stdout)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			var response rawResponse
			if json.Unmarshal(line, &response) != nil {
				response = rawResponse{unreadable: string(line)}
			}
			d.responses <- response
		}
		if err != nil {
			break
		}
	}
	d.endErr = d.cmd.Wait()
	close(d.ended)
}

// do sends one request and waits for its response. An error means that the driver is unusable: it exited,
// hung, or wrote something that is not a response.
func (d *driver) do(op string, args json.RawMessage, timeout time.Duration) (Response, error) {
	d.nextID++
	request, err := json.Marshal(struct {
		ID   int             `json:"id"`
		Op   string          `json:"op"`
		Args json.RawMessage `json:"args,omitempty"`
	}{d.nextID, op, args})
	if err != nil {
		return Response{}, err
	}
	if _, err := d.stdin.Write(append(request, '\n')); err != nil {
		return Response{}, d.failure("no longer accepts requests", timeout)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case response := <-d.responses:
		return d.checked(response)
	case <-d.ended:
		// A response written before the exit counts.
		select {
		case response := <-d.responses:
			return d.checked(response)
		default:
			return Response{}, d.failure("exited without a response", timeout)
		}
	case <-timer.C:
		return Response{}, d.failure(fmt.Sprintf("sent no response within %v", timeout), 0)
	}
}

func (d *driver) checked(response rawResponse) (Response, error) {
	if response.unreadable != "" {
		return Response{}, d.failure(fmt.Sprintf("wrote a line that is not a response: %q", response.unreadable), 0)
	}
	if response.ID != d.nextID {
		return Response{}, d.failure(fmt.Sprintf("sent the response to request %d instead of %d", response.ID, d.nextID), 0)
	}
	if response.Result == nil && response.Error == nil {
		return Response{}, d.failure("returned neither a result nor an error", 0)
	}
	return Response{Result: response.Result, Error: response.Error}, nil
}

// failure describes why the driver is unusable, with the end of its log. It waits for the program to exit so
// that it can include the exit status.
func (d *driver) failure(what string, wait time.Duration) error {
	select {
	case <-d.ended:
		if d.endErr != nil {
			what += fmt.Sprintf(" (%v)", d.endErr)
		}
	case <-time.After(wait):
	}
	if log := d.stderr.String(); log != "" {
		what += "; end of its log:\n" + log
	}
	return errors.New("the driver " + what)
}

// close asks the driver to exit and kills it if it does not.
func (d *driver) close(timeout time.Duration) error {
	_, _ = fmt.Fprintf(d.stdin, "{\"id\":%d,\"op\":\"close\",\"args\":{}}\n", d.nextID+1)
	_ = d.stdin.Close()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case <-d.responses:
		case <-d.ended:
			if d.endErr != nil {
				return d.failure("did not exit cleanly", 0)
			}
			return nil
		case <-timer.C:
			d.kill()
			return d.failure(fmt.Sprintf("did not exit within %v of the close request", timeout), timeout)
		}
	}
}

// kill kills the driver.
func (d *driver) kill() {
	_ = d.stdin.Close()
	_ = d.cmd.Process.Kill()
	for {
		select {
		case <-d.responses:
		case <-d.ended:
			return
		}
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append([]byte(nil), t.text[extra:]...)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
