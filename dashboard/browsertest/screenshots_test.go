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
	"os"
	"path/filepath"
	"slices"
	"strings"

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
