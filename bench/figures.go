package main

import "slices"

// quantile of some figures, q from 0 to 1.
func quantile(figures []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// medianOf is the median over the rounds of a figure of each round.
func medianOf(rounds [][]float64, q float64) float64 {
	var figures []float64
	for _, round := range rounds {
		figures = append(figures, quantile(round, q))
	}
	return quantile(figures, 0.5)
}

// within is the share of figures that are at most so many.
func within(figures []float64, most float64) float64 {
	n := 0
	for _, figure := range figures {
		if figure <= most {
			n++
		}
	}
	return float64(n) / float64(len(figures))
}
