package child

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm is a kernel timer that sends SIGCONT to this process, repeatedly from its set time on, so that the process
// cannot be kept stopped beyond that time, not even by SIGSTOP. The timer advances while the machine is suspended.
type alarm struct{ id int32 }

func newAlarm() (*alarm, error) {
	a := &alarm{}
	event := struct { // struct sigevent; notify 0 is SIGEV_SIGNAL
		value          uintptr
		signal, notify int32
		_              [56 - unsafe.Sizeof(uintptr(0))]byte
	}{signal: int32(syscall.SIGCONT)}
	_, _, errno := syscall.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&a.id))) //nolint:gosec // the kernel reads and writes them
	if errno != 0 {
		return nil, fmt.Errorf("create a timer: %w", errno)
	}
	return a, nil
}

// ring sets the alarm to fire after the given time and then at the given interval. An after of 0 disarms it.
func (a *alarm) ring(after, every time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after)), Interval: unix.NsecToTimespec(int64(every))}
	_, _, errno := syscall.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(a.id), 0,
		uintptr(unsafe.Pointer(&spec)), 0, 0, 0) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return fmt.Errorf("set a timer: %w", errno)
	}
	return nil
}
