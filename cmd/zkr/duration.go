package main

import (
	"fmt"
	"strconv"
	"time"
)

// duration is a flag value such as 1m30s or, as for flock(1) and timeout(1), a plain number of seconds such as 0.5.
type duration time.Duration

func (d *duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if seconds, bad := strconv.ParseFloat(text, 64); bad == nil && seconds >= 0 && seconds < 1e9 {
		parsed, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || parsed < 0 {
		return fmt.Errorf("%q: want a duration such as 90s, 1m30s or 0.5", text)
	}
	*d = duration(parsed)
	return nil
}

func (d *duration) String() string {
	if *d <= 0 { // a negative one is the absence of a limit
		return ""
	}
	return time.Duration(*d).String()
}

// Type returns the name that help shows for the value.
func (d *duration) Type() string { return "duration" }
