package zkrecipes

// NewHold makes a hold on a grant of a test's own.
var NewHold = newHold
