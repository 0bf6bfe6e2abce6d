package rocprof

import (
	"bytes"
	"fmt"
	"testing"
)

func kernelCSV(rows int) []byte {
	var b bytes.Buffer
	b.WriteString(`"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"` + "\n")
	for i := range rows {
		start := 1550151853029637 + int64(i)*12000
		fmt.Fprintf(&b, `"KERNEL_DISPATCH","Agent 4",1,1,834304,%d,10,"void addition_kernel<float>(float*, float const*, float const*, int, int) [clone .kd]",%d,%d,%d,0,0,8,0,16,64,1,1,1024,1024,1`+"\n", i+1, i+1, start, start+11000)
	}
	return b.Bytes()
}

func BenchmarkTable(b *testing.B) {
	text := kernelCSV(100000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		t, _ := newTable(bytes.NewReader(text), "k")
		c := t.column("start_timestamp")
		var sum int64
		for {
			ok, err := t.next()
			if !ok || err != nil {
				break
			}
			n, _ := number(t.field(c))
			sum += n
		}
	}
}
