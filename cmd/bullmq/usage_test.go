package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/creack/pty"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

// misuse runs a command line in this process, and returns its error. Many would take long as
// processes.
func (s *site) misuse(line string) error {
	GinkgoHelper()
	root := newRoot()
	root.SetArgs(append(strings.Fields(line), "--redis", s.url, "--prefix", s.prefix))
	root.SetIn(&bytes.Buffer{})
	root.SetOut(GinkgoWriter)
	root.SetErr(GinkgoWriter)
	return root.ExecuteContext(ctx)
}

var _ = Describe("The command line", func() {
	It("is refused if it is wrong, and nothing is done", func() {
		s := open()
		s.add(s.queue("orders"), 2, "paint", nil, nil)
		before := s.dump()
		for line, text := range map[string]string{
			"nonsense":                "unknown command",
			"quues":                   "did you mean queues?",
			"jobs":                    "accepts 1 arg",
			"jobs orders --limit x":   "invalid argument",
			"jobs orders --limit -1":  "--limit is negative",
			"jobs orders --state odd": `there is no state "odd"`,
			"queues --none":           "unknown flag",
			"queues --json --table":   "--json or --table",
			"dashboard extra":         "unknown command",
			"queues --timeout 0":      "--timeout must be more than 0",
			"queues --timeout -1s":    "--timeout must be more than 0",

			"remove orders 1 --all":          "either ids or conditions",
			"remove orders":                  "--all",
			"remove orders --all":            "--yes",
			"retry orders --state odd --all": `there is no state "odd"`,

			"add orders":               "accepts between 2 and 3 arg",
			"add orders paint {blue}":  "DATA is not JSON: {blue}",
			"pause":                    "requires at least 1 arg",
			"repair orders":            "--yes",
			"clean":                    "accepts 1 arg",
			"clean orders":             "--yes",
			"clean orders --state odd": `there is no state "odd"`,
			"drain":                    "accepts 1 arg",
			"drain orders":             "--yes",

			"obliterate orders":                    "--yes --name QUEUE",
			"obliterate orders --yes":              "--name",
			"obliterate orders --yes --name order": "--name",
			"obliterate orders --dry-run --name x": "--name",

			"limit":                           "accepts 1 arg",
			"limit orders --concurrency many": "give a number or none",
			"limit orders --concurrency -1":   "give a number or none",
			"limit orders --rate 10":          "such as 100/1m",
			"limit orders --rate 0/1m":        "such as 100/1m",

			"search":                               "--id, or a condition",
			"search --id 1 --name x":               "either --id or conditions",
			"search --name x --after 7":            "--after is not one",
			"search --name x --after a@odd!":       "--after is not one",
			"jobs orders --after odd!":             "--after is not one",
			"dead orders --after odd!":             "--after is not one",
			"search --name x --state odd":          `there is no state "odd"`,
			"dead":                                 "accepts between 1 and 2 arg",
			"dead orders --job 1":                  "--from",
			"dead orders 1 --counts":               "either an ID, or --counts, or conditions",
			"dead orders --counts --error x":       "either an ID, or --counts, or conditions",
			"dead orders --limit -1":               "--limit is negative",
			"replay orders":                        "--all",
			"replay orders --all":                  "--yes",
			"replay orders 1 --all":                "either ids or conditions",
			"replay orders --all --older-than -1s": `"-1s" is not a duration such as 90s, 1h30m or 7d`,
			"jobs orders --older-than 1w":          `"1w" is not a duration`,
			"jobs orders --ended-within 1.5d":      `"1.5d" is not a duration`,
			"jobs orders --ended-within ''":        "is not a duration",
		} {
			err := s.misuse(line)
			var usage usageError
			Expect(errors.As(err, &usage)).To(BeTrue(), "%s: %v", line, err)
			Expect(err).To(MatchError(ContainSubstring(text)), line)
		}
		Expect(s.dump()).To(Equal(before))

		_, errors := s.run(2, "remove", "orders", "--all")
		Expect(errors).To(And(HavePrefix("bullmq: "), HaveSuffix("See bullmq remove --help.\n")))
		_, errors = s.run(1, "queues", "--redis", "redis://127.0.0.1:1", "--timeout", "5s")
		Expect(errors).To(ContainSubstring("connection refused"))
	})

	It("can be interrupted while it asks, and has then changed nothing", func() {
		s := open()
		s.add(s.queue("orders"), 2, "paint", nil, nil)
		before := s.dump()
		for _, arguments := range [][]string{{"remove", "orders", "--all"}, {"clean", "orders", "--state", "waiting"}, {"drain", "orders"}, {"obliterate", "orders"}} {
			command := s.command(arguments...)
			terminal, err := pty.Start(command)
			Expect(err).NotTo(HaveOccurred())
			shown := gbytes.BufferReader(terminal)
			Eventually(shown, "20s").Should(gbytes.Say(`\[y/N\] |to go on: `))
			_, err = terminal.WriteString("\x03")
			Expect(err).NotTo(HaveOccurred())
			Eventually(shown, "20s").Should(gbytes.Say("bullmq: nothing was changed"))
			Expect(command.Wait()).To(MatchError(fmt.Sprint("exit status ", exitInterrupted)))
			Expect(terminal.Close()).To(Succeed())
		}
		Expect(s.dump()).To(Equal(before))
	})

	It("tells which permission is missing, and where they are listed", func() {
		s := open()
		s.add(s.queue("orders"), 2, "paint", nil, nil)
		client := s.client()
		Expect(client.Do(ctx, client.B().Arbitrary("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+@connection", "+eval", "+evalsha").Build()).Error()).To(Succeed())
		reader := strings.Replace(s.url, "redis://", "redis://reader:secret@", 1)
		output, _ := s.run(0, "queues", "--redis", reader)
		Expect(output).To(ContainSubstring(`"name":"orders"`))
		for _, arguments := range [][]string{{"pause", "orders"}, {"add", "orders", "paint"}, {"drain", "orders", "--yes"}} {
			_, errors := s.run(1, append(arguments, "--redis", reader)...)
			Expect(errors).To(And(HavePrefix("bullmq: "), ContainSubstring("lacks a permission. docs/security.md"), Not(ContainSubstring("secret"))), strings.Join(arguments, " "))
		}
	})

	It("fails if its output can't be written, and if a queue of workers does not exist", func() {
		s := open()
		s.queue("orders")
		_, errors := s.run(1, "workers", "ordres")
		Expect(errors).To(ContainSubstring("there is no queue ordres"))
		output, _ := s.run(0, "workers", "orders")
		Expect(output).To(BeEmpty())
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			Skip("there is no /dev/full")
		}
		defer full.Close()
		command := s.command("queues")
		var text bytes.Buffer
		command.Stdout, command.Stderr = full, &text
		Expect(command.Run()).To(MatchError("exit status 1"))
		Expect(text.String()).To(HavePrefix("bullmq: write /dev/stdout: no space left"))
	})

	It("has help for each command", func() {
		s := open()
		output, _ := s.run(0, "--help")
		for _, command := range newRoot().Commands() {
			Expect(output).To(MatchRegexp(`(?m)^  ` + command.Name() + ` `))
			Expect(command.GroupID).NotTo(BeEmpty(), command.Name())
			Expect(command.Short).To(MatchRegexp(`^[A-Z].*[^.]$`), command.Name())
			Expect(len(command.Short)).To(BeNumerically("<", 100), command.Name())
		}
	})
})

var _ = Describe("The page about the command", func() {
	It("has every command", func() {
		page, err := os.ReadFile("../../docs/operating.md")
		Expect(err).NotTo(HaveOccurred())
		for _, command := range newRoot().Commands() {
			Expect(string(page)).To(MatchRegexp("(?m)^\\| .*`bullmq "+command.Name()+"[ `]"), command.Name())
		}
	})
})
