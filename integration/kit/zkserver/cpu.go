package zkserver

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPU returns the processor time that processes have used so far, or 0 on systems without /proc.
func CPU(pids ...int) (total time.Duration) {
	for _, pid := range pids {
		total += used(pid)
	}
	return total
}

func used(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // after the name of the program
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])   // always digits
	system, _ := strconv.Atoi(fields[12]) // always digits
	return time.Duration(user+system) * 10 * time.Millisecond
}
