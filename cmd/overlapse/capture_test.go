package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Two processes of a real PyTorch that train over gloo on CPUs end in the sentence that they
// do no GPU work.
func TestCaptureGloo(t *testing.T) {
	const need = "import torch, torch.distributed as d; assert d.is_available()"
	python := ""
	var why strings.Builder
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		text, err := exec.Command(p, "-c", need).CombinedOutput()
		if err == nil {
			python = p
			break
		}
		fmt.Fprintf(&why, "%s: %v: %.200s; ", p, err, bytes.TrimSpace(text))
	}
	if python == "" {
		t.Skip("no Python has PyTorch: " + why.String())
	}
	free := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	dir := t.TempDir()
	script := `import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.Adam(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
for i in range(12):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).sum().backward()
    optimizer.step()
    scheduler.step()
`
	must.Do(t, os.WriteFile(filepath.Join(dir, "train.py"), []byte(script), 0o666))
	launch := fmt.Sprintf("cd %[1]s; export MASTER_ADDR=127.0.0.1 MASTER_PORT=%[2]d WORLD_SIZE=2; RANK=1 %[3]s train.py & RANK=0 %[3]s train.py && wait $!", dir, port, python)
	var out, stderr bytes.Buffer
	a := newApp(&cli.Console{In: strings.NewReader(""), Out: &out, Data: &out, Err: &stderr})
	code := run([]string{"capture", "-o", filepath.Join(dir, "out"), "--steps", "2", "--warmup", "3", "--", "sh", "-c", launch}, a)
	if want := "the program did no GPU work: no kernel or copy among the "; code != cli.Failed || !strings.Contains(stderr.String(), want) || !strings.Contains(stderr.String(), "events of 2 ranks") {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	if text := string(printed(t, "inspect", filepath.Join(dir, "out"))); !strings.Contains(text, "2 ranks") || !strings.Contains(text, "no kernel and no copy of a GPU") {
		t.Error(text)
	}
}
