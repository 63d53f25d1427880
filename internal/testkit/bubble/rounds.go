package bubble

// Rounds returns n, or a sixth of it under the race detector: the tests also run without it, and races need few rounds.
func Rounds(n int) int {
	if Race {
		return max(n/6, 1)
	}
	return n
}
