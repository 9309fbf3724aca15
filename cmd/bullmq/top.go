package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
)

const leastInterval = 200 * time.Millisecond

func newTop(c *client) *cobra.Command {
	var interval time.Duration
	var sortBy string
	command := &cobra.Command{
		Use:   "top [TEXT]",
		Short: "Watch queues, rates and workers in the terminal; TEXT selects queues by their names",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if !isTerminal(command.OutOrStdout()) || !isTerminal(command.InOrStdin()) {
				return usageError{errors.New("top needs a terminal: elsewhere use bullmq queues")}
			}
			m := &topModel{c: c, interval: max(interval, leastInterval), colors: os.Getenv("NO_COLOR") == "", width: 80, height: 24}
			if !m.sortBy(sortBy) {
				return usageError{fmt.Errorf("there is no column %q to sort by: use one of %s", sortBy, topColumnNames())}
			}
			if len(args) > 0 {
				m.filter = args[0]
			}
			_, connection, end, err := c.connect(command)
			if err != nil {
				return err
			}
			defer end()
			m.source = &topSource{connection: connection, prefix: c.prefix}
			var ctx context.Context
			ctx, m.stop = context.WithCancel(command.Context())
			defer m.stop()
			m.ctx = ctx
			_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(command.InOrStdin()), tea.WithOutput(command.OutOrStdout()), tea.WithoutSignalHandler()).Run()
			if command.Context().Err() != nil {
				return nil // interrupted
			}
			return err
		},
	}
	command.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two refreshes")
	command.Flags().StringVar(&sortBy, "sort", "queue", "column to sort by: "+topColumnNames())
	return command
}

// topModel is the state of the view.
type topModel struct {
	ctx      context.Context
	stop     context.CancelFunc
	c        *client
	source   *topSource
	interval time.Duration
	colors   bool

	width, height int
	data          topData
	rows          []topRow // of the data: those that match the filter, in order
	err           error    // of the last refresh
	reading       bool     // a refresh is in flight
	ticks         int      // number of the tick that is awaited
	paused        bool
	help          bool

	column     int // by which rows are sorted
	ascending  bool
	filter     string
	editing    bool // of the filter
	selected   string
	top        int    // the first row that is shown
	queue      string // whose workers and jobs are shown; "" for all queues
	detailFrom int    // the first line of the details that is shown
}

// The messages of the view.
type (
	topTick struct{ number int }
	topRead struct {
		data topData
		err  error
	}
)

func (m *topModel) Init() tea.Cmd { return m.refresh() }

// refresh reads the queues, unless that is under way.
func (m *topModel) refresh() tea.Cmd {
	if m.reading {
		return nil
	}
	m.reading = true
	queue := m.queue
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, m.c.timeout)
		defer cancel()
		data, err := m.source.read(ctx, queue)
		return topRead{data, err}
	}
}

// Update implements [tea.Model].
func (m *topModel) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case topTick:
		switch {
		case message.number != m.ticks: // another refresh has begun a new wait
			return m, nil
		case m.paused:
			return m, m.wait()
		}
		return m, m.refresh()
	case topRead:
		m.reading, m.err = false, message.err
		if message.err == nil {
			m.data = message.data
			m.arrange()
		}
		return m, m.wait()
	case tea.PasteMsg:
		if m.editing {
			m.filter += message.Content
			m.arrange()
		}
	case tea.KeyPressMsg:
		return m, m.press(message)
	}
	return m, nil
}

// wait waits for the next refresh.
func (m *topModel) wait() tea.Cmd {
	m.ticks++
	number := m.ticks
	return tea.Tick(m.interval, func(time.Time) tea.Msg { return topTick{number} })
}

// press handles a key.
func (m *topModel) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	if m.editing {
		m.edit(name, key.Text)
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "esc", "backspace", "left", "h":
		m.help = false
		if m.queue != "" {
			m.queue, m.data.detail = "", nil
		} else if name == "esc" {
			m.filter = ""
			m.arrange()
		}
	case "?":
		m.help = !m.help
	case "p", "space":
		m.paused = !m.paused
	case "/":
		m.editing = m.queue == ""
	case "enter", "right", "l":
		if m.queue == "" && m.selected != "" {
			m.queue, m.detailFrom, m.data.detail = m.selected, 0, nil
			return m.refresh()
		}
	case "s", "S":
		step := 1
		if name == "S" {
			step = -1
		}
		m.column = (m.column + step + len(topColumns)) % len(topColumns)
		m.ascending = topColumns[m.column].text
		m.arrange()
	case "r":
		m.ascending = !m.ascending
		m.arrange()
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.page())
	case "pgdown":
		m.move(m.page())
	case "home", "g":
		m.move(-1 << 20)
	case "end", "G":
		m.move(1 << 20)
	}
	return nil
}

// edit handles a key while the filter is typed.
func (m *topModel) edit(name, text string) {
	switch name {
	case "enter":
		m.editing = false
	case "esc":
		m.editing, m.filter = false, ""
	case "backspace":
		if runes := []rune(m.filter); len(runes) > 0 {
			m.filter = string(runes[:len(runes)-1])
		}
	case "ctrl+u":
		m.filter = ""
	default:
		m.filter += text
	}
	m.arrange()
}
