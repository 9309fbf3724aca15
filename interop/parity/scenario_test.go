package parity_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/parity"
)

// writeScenarios writes scenario files, given as pairs of name and text, to a temporary folder.
func writeScenarios(namesAndTexts ...string) string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	for index := 0; index < len(namesAndTexts); index += 2 {
		path := filepath.Join(folder, namesAndTexts[index])
		Expect(os.WriteFile(path, []byte(namesAndTexts[index+1]), 0o600)).To(Succeed())
	}
	return folder
}

var _ = Describe("Scenario files", func() {
	It("are read in the order of their names with steps, flags and the runner's own operations", func() {
		folder := writeScenarios(
			"02-second.json", `[{"name":"later","steps":[["close",{}]]}]`,
			"01-first.json", `[{"name":"sooner","steps":[
				["add",{"queue":"orders","name":"a"}],
				["rateLimitTtl",{"queue":"orders"},{"anyResult":true}],
				["run",{"queue":"orders","count":1},{"noSnap":true}],
				["$redis",["DEL","bull:orders:1"]],
				["$sleep",1.5]]}]`)

		scenarios, err := parity.Load(folder)
		Expect(err).NotTo(HaveOccurred())
		Expect(scenarios).To(HaveLen(2))
		Expect(scenarios[1].Name).To(Equal("later"))

		Expect(scenarios[0].File).To(Equal("01-first.json"))
		steps := scenarios[0].Steps
		Expect(steps).To(HaveLen(5))
		Expect(steps[0].Op).To(Equal("add"))
		Expect(string(steps[0].Args)).To(Equal(`{"queue":"orders","name":"a"}`))
		Expect(steps[0].AnyResult || steps[0].NoSnap).To(BeFalse())
		Expect(steps[1].AnyResult).To(BeTrue())
		Expect(steps[2].NoSnap).To(BeTrue())
		Expect(steps[3].Redis).To(Equal([]string{"DEL", "bull:orders:1"}))
		Expect(steps[4].Sleep).To(Equal(1500 * time.Microsecond))
	})

	DescribeTable("are rejected if they have", func(text, complaint string) {
		_, err := parity.Load(writeScenarios("01.json", text))
		Expect(err).To(MatchError(And(ContainSubstring("01.json"), ContainSubstring(complaint))))
	},
		Entry("an unknown flag", `[{"name":"x","steps":[["add",{},{"anyresults":true}]]}]`, "anyresults"),
		Entry("an unknown field", `[{"name":"x","stepz":[]}]`, "stepz"),
		Entry("a step without arguments", `[{"name":"x","steps":[["add"]]}]`, "step 1"),
		Entry("a Redis command that is not a list of strings", `[{"name":"x","steps":[["close",{}],["$redis","DEL x"]]}]`, "step 2"),
		Entry("a pause that is not a number", `[{"name":"x","steps":[["$sleep","long"]]}]`, "milliseconds"),
		Entry("no steps", `[{"name":"x","steps":[]}]`, "steps"),
		Entry("no name", `[{"steps":[["close",{}]]}]`, "name"),
		Entry("the same name twice", `[{"name":"x","steps":[["close",{}]]},{"name":"x","steps":[["close",{}]]}]`, `"x"`),
	)

	It("must exist", func() {
		_, err := parity.Load(GinkgoT().TempDir())
		Expect(err).To(MatchError(ContainSubstring("no scenario files")))
	})
})
