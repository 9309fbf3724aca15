package dashboard

// Patterns returns the patterns of all addresses.
func (d *Dashboard) Patterns() []string { return d.patterns }
