package trigger

// What tests from outside look into.
var (
	Threshold = threshold
	Intensity = intensity
)

// Unlimited is a queue that no threshold bounds.
const Unlimited = unlimited
