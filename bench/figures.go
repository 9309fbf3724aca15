package main

import "slices"

const mebi = 1 << 20

// quantile returns a quantile of figures, with q from 0 to 1.
func quantile(figures []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// each returns one figure of each item.
func each[T any](items []T, figure func(T) float64) []float64 {
	figures := make([]float64, len(items))
	for i, item := range items {
		figures[i] = figure(item)
	}
	return figures
}

// quantileOf returns a quantile of one figure of the items.
func quantileOf[T any](items []T, q float64, figure func(T) float64) float64 {
	return quantile(each(items, figure), q)
}

// medianOf returns the median of one figure of the items.
func medianOf[T any](items []T, figure func(T) float64) float64 {
	return quantileOf(items, 0.5, figure)
}
