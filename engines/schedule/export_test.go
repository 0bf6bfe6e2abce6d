package schedule

// LastSum is for tests from outside.
var LastSum = lastSum
