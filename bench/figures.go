package main

import "slices"

const mebi = 1 << 20

// quantile of some figures, q from 0 to 1.
func quantile(figures []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// medianOf is the median of one figure of each round.
func medianOf[T any](rounds []T, figure func(T) float64) float64 {
	figures := make([]float64, len(rounds))
	for i, round := range rounds {
		figures[i] = figure(round)
	}
	return quantile(figures, 0.5)
}
