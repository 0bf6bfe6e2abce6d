package perfetto

// Field numbers of Perfetto's messages, as protos/perfetto/trace has them.
const (
	// TracePacket
	packetClocks         = 6
	packetTimestamp      = 8
	packetSequence       = 10
	packetEvent          = 11
	packetInterned       = 12
	packetFlags          = 13 // bit 0: the state of the sequence is cleared
	packetCleared        = 41
	packetDropped        = 42
	packetCompressed     = 50
	packetTimestampClock = 58
	packetDefaults       = 59
	packetTrack          = 60
	packetStage          = 53

	// TracePacketDefaults, TrackEventDefaults
	defaultsTimestampClock = 58
	defaultsEvent          = 11
	defaultsEventTrack     = 11

	// InternedData, and its entries
	internedCategories = 1
	internedEvents     = 2
	internedKeys       = 3
	internedValues     = 29
	internedContexts   = 23
	internedStages     = 24
	internedKernels    = 1000
	internedArguments  = 1001
	entryID            = 1
	entryText          = 2
	entryDemangled     = 3 // of a kernel
	entryCategory      = 4 // of a stage; 2: compute

	// GpuRenderStageEvent, and its parts
	stageID       = 1
	stageDuration = 2
	stageContext  = 5
	stageExtra    = 6
	stageGPU      = 11
	stageQueue    = 13
	stageKind     = 14
	stageMask     = 15
	stageName     = 17
	stageWaits    = 18
	stageKernel   = 19
	stageNameID   = 20
	stageLaunch   = 21
	launchGrid    = 1
	launchBlock   = 2
	launchArg     = 3
	argNameID     = 1
	argName       = 2
	argInt        = 3
	argUint       = 4

	// TrackDescriptor, ProcessDescriptor, ThreadDescriptor
	trackUUID       = 1
	trackName       = 2
	trackProcess    = 3
	trackThread     = 4
	trackParent     = 5
	trackStaticName = 10
	processPID      = 1
	threadPID       = 1
	threadTID       = 2
	threadName      = 5

	// TrackEvent
	eventCategoryID  = 3
	eventAnnotations = 4
	eventType        = 9
	eventNameID      = 10
	eventTrack       = 11
	eventCategory    = 22
	eventName        = 23
	eventGPU         = 3000 // GpuCorrelation: 1 is ids of stages that the event launched
)
