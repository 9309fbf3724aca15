package browsertest

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// maxScreenshot is the largest file of a screenshot, in bytes.
const maxScreenshot = 150_000

// screenshot stores what a tab shows for the documentation, with make screenshots.
func screenshot(t *tab, name string) {
	GinkgoHelper()
	if os.Getenv("BULLMQ_SCREENSHOTS") == "" {
		return
	}
	taken, err := chromedp.Run(t.begun(), chromedp.CaptureScreenshot())
	Expect(err).NotTo(HaveOccurred())
	small, err := compress(taken)
	Expect(err).NotTo(HaveOccurred())
	Expect(len(small)).To(BeNumerically("<=", maxScreenshot), name)
	folder := filepath.Join("..", "..", "docs", "images")
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, name), small, 0o644)).To(Succeed())
}

// compress encodes a picture with the 256 colours that occur most often. Pages have few colours,
// so that only the edges of letters change a little.
func compress(picture []byte) ([]byte, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	box := decoded.Bounds()
	counts := map[color.Color]int{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			counts[color.NRGBAModel.Convert(decoded.At(x, y))]++
		}
	}
	palette := color.Palette(slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	}))
	reduced := image.NewPaletted(box, palette[:min(len(palette), 256)])
	draw.Draw(reduced, box, decoded, box.Min, draw.Src)
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, reduced)
	return out.Bytes(), err
}

// pictures are the screenshots of the documentation.
var pictures = []struct {
	name string
	path func(*world) string
}{
	{"overview", to("/")},
	{"queue", to("/queues/orders?state=waiting")},
	{"job", job("orders", "completed")},
	{"flow", flowOf("flow")},
}

var _ = Describe("The pictures of the documentation", Label("screenshots"), func() {
	It("are taken in light and dark, and are small", func() {
		w := openWorld(nil)
		w.odd = "wrap"
		w.fill()
		t := browser.open(view{width: 1280, height: 720})
		for _, p := range pictures {
			for _, dark := range []bool{false, true} {
				t.look(view{width: 1280, height: 720, dark: dark})
				t.load(p.path(w))
				high := eval[int64](t, "Math.ceil(document.querySelector('body > footer').getBoundingClientRect().bottom)")
				t.look(view{width: 1280, height: min(high, 720), dark: dark})
				t.settle()
				suffix := ""
				if dark {
					suffix = "-dark"
				}
				screenshot(t, "dashboard-"+p.name+suffix+".png")
			}
		}
	})
})

// measured stores the metrics of an hour, as workers do.
func (w *world) measured(queue string, completed, failed int) {
	GinkgoHelper()
	for state, n := range map[string]int{"completed": completed, "failed": failed} {
		key := "bull:" + queue + ":metrics:" + state
		push := []string{"RPUSH", key + ":data"}
		sum := 0
		for i := range 60 {
			points := max(0, n+int(float64(n)/2*math.Sin(float64(i)/6)+float64(i*7919%11)-5))
			sum += points
			push = append(push, strconv.Itoa(points))
		}
		w.command("DEL", key+":data")
		w.command(push...)
		w.command("HSET", key, "count", strconv.Itoa(sum), "prevTS", strconv.FormatInt(time.Now().UnixMilli(), 10), "prevCount", strconv.Itoa(sum))
	}
}
