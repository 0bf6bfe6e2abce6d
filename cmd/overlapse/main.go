// Command overlapse replays captured GPU traces on a modelled multi-GPU
// machine under every strategy of overlapping computation with communication.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], newApp(terminal())))
}
