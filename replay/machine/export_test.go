package machine

// For tests outside of the package.
const LowestClock = lowestClock

var NcclProtocols = ncclProtocols

// OccupancyShare is GPU.occupancyShare, for tests outside of the package.
func OccupancyShare(g GPU, occupancy float64) float64 { return g.occupancyShare(occupancy) }
