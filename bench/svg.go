package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// The picture has a bar for each figure and contender except Node. Its length is the factor by which the
// contender is better than Node. Better is to the right, and each grid line doubles the factor. The picture
// has its own background for dark pages.
const (
	pictureWidth = 860
	barsLeft     = 310
	barsRight    = 780
	rowHeight    = 30
	barHeight    = 10
	headHeight   = 76
	groupHeight  = 30
	leastBetter  = 1.0 / 8
	mostBetter   = 32.0
)

var barColours = map[string]string{ownName: "#1a7f5a", asynqName: "#9a86d3"}

func (r report) picture() string {
	var b strings.Builder
	y := headHeight
	for _, t := range r.tables {
		if len(t.figures) == 0 {
			continue
		}
		y += groupHeight
		writeText(&b, 20, y-8, "start", "bold", "", t.title)
		for _, f := range t.figures {
			writeText(&b, barsLeft-10, y+rowHeight/2+2, "end", "normal", "", f.title)
			for i, name := range r.names[1:] {
				if better, ok := f.better(name); ok {
					writeBar(&b, y+4+i*(barHeight+1), name, better)
				}
			}
			y += rowHeight
		}
	}
	height := y + 20
	var all strings.Builder
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12" fill="#24292f" role="img">`+"\n",
		pictureWidth, height, pictureWidth, height)
	all.WriteString("<title>bullmq-go and asynq compared with Node's bullmq</title>\n")
	fmt.Fprintf(&all, `<rect width="%d" height="%d" rx="8" fill="#f6f8fa"/>`+"\n", pictureWidth, height)
	writeText(&all, 20, 28, "start", "bold", "16", "Compared with Node's bullmq (right is better)")
	x := 20
	for _, name := range r.names {
		if colour, ok := barColours[name]; ok {
			fmt.Fprintf(&all, `<rect x="%d" y="42" width="12" height="12" fill="%s"/>`+"\n", x, colour)
			writeText(&all, x+18, 53, "start", "normal", "", name)
			x += 110
		}
	}
	for better := leastBetter; better <= mostBetter; better *= 2 {
		colour, width := "#d0d7de", 1
		if better == 1 {
			colour, width = "#57606a", 2
		}
		fmt.Fprintf(&all, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="%d"/>`+"\n",
			place(better), headHeight, place(better), height-14, colour, width)
		label := fmt.Sprintf("%g×", better)
		if better < 1 {
			label = fmt.Sprintf("1/%g", 1/better)
		}
		writeText(&all, int(place(better)), headHeight-6, "middle", "normal", "11", label)
	}
	return all.String() + b.String() + "</svg>\n"
}

// place returns the position of a factor on the scale.
func place(better float64) float64 {
	inside := min(max(better, leastBetter), mostBetter)
	share := math.Log(inside/leastBetter) / math.Log(mostBetter/leastBetter)
	return barsLeft + share*(barsRight-barsLeft)
}

func writeBar(b *strings.Builder, y int, name string, better float64) {
	from, to := place(1), place(better)
	fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n",
		min(from, to), y, max(math.Abs(to-from), 1), barHeight, barColours[name])
	writeText(b, int(max(from, to))+5, y+barHeight-1, "start", "normal", "10", betterText(better))
}

func betterText(better float64) string {
	if better < 0.1 {
		return "1/" + number(1/better)
	}
	return number(better) + "×"
}

func writeText(b *strings.Builder, x, y int, anchor, weight, size, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" font-weight="%s"`, x, y, anchor, weight)
	if size != "" {
		fmt.Fprintf(b, ` font-size="%s"`, size)
	}
	b.WriteString(">")
	_ = xml.EscapeText(b, []byte(text))
	b.WriteString("</text>\n")
}
