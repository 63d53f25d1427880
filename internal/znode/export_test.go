package znode

// SetShortcuts switches the shortcuts for queues made from now on.
func SetShortcuts(on bool) { useShortcuts = on }
