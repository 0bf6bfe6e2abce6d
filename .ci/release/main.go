// Command release builds the files of a release: for each platform an archive with a static
// program, the manual pages and the shell completions, and a software bill of materials (SBOM);
// their checksums; and the file of the container image. The same commit and the same Go
// give the same bytes in any folder. It is a module of its own, so that the program does not
// depend on CycloneDX.
//
//	go -C .ci/release run . -o ../../out/release
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed Dockerfile
var dockerfile string

// A build is what all platforms of a release share.
type build struct {
	root    string // of the clone
	out     string
	version string // 0.2.0
	commit  string
	date    time.Time // of the commit: of every file
	shared  []file    // of every archive
	host    string    // a program that runs here
}

func main() {
	out := flag.String("o", "", "folder for the release; it must not exist")
	version := flag.String("version", "", "version, as 0.2.0; default: the newest in CHANGELOG.md")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "systems and processors")
	flag.Parse()
	if err := run(*out, *version, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(out, version string, platforms []string) (err error) {
	if out == "" {
		return errors.New("give -o FOLDER")
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return err
	}
	if err := os.Mkdir(out, 0o777); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(out) // all files or none
		}
	}()
	work, err := os.MkdirTemp("", "overlapse-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	b, err := prepare(out, version, work)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if err := b.platform(p, work); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		fmt.Fprintln(os.Stdout, p)
	}
	text := strings.Replace(dockerfile, "ARG VERSION=devel", "ARG VERSION="+b.version, 1)
	if err := os.WriteFile(filepath.Join(out, "Dockerfile"), []byte(text), 0o666); err != nil {
		return err
	}
	return b.checksums()
}

var (
	section = regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`)
	number  = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)
)

// prepare reads the version and the commit, and makes what all archives share.
func prepare(out, version, work string) (*build, error) {
	top, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	b := &build{root: top, out: out, host: filepath.Join(work, "host")}
	changed, err := output(top, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return nil, fmt.Errorf("the clone has changes that no commit has (commit or stash them):\n%s", changed)
	}
	log, err := os.ReadFile(filepath.Join(top, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	if newest := section.FindSubmatch(log); newest != nil {
		version = cmp.Or(strings.TrimPrefix(version, "v"), string(newest[1]))
	}
	if !number.MatchString(version) {
		return nil, fmt.Errorf("version %q (as 0.2.0; CHANGELOG.md has no section of one)", version)
	}
	b.version = version
	if b.commit, err = output(top, "git", "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	date, err := output(top, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return nil, err
	}
	if b.date, err = time.Parse(time.RFC3339, date); err != nil {
		return nil, err
	}
	b.date = b.date.UTC()
	if err := b.compile(b.host); err != nil {
		return nil, err
	}
	b.shared, err = b.documents(work)
	return b, err
}

// compile builds the program for the platform of the variables.
func (b *build) compile(to string, env ...string) error {
	flags := fmt.Sprintf("-s -w -buildid= -X main.releasedVersion=v%s -X main.releasedCommit=%s -X main.releasedDate=%s", b.version, b.commit, b.date.Format(time.RFC3339))
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", flags, "-o", to, "./cmd/overlapse")
	c.Dir, c.Env, c.Stderr = b.root, append(os.Environ(), append(env, "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off")...), os.Stderr
	return c.Run()
}

// documents are the files of every archive besides the program.
func (b *build) documents(work string) ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(b.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, data: text})
	}
	for shell, name := range map[string]string{"bash": "overlapse.bash", "zsh": "_overlapse", "fish": "overlapse.fish", "powershell": "overlapse.ps1"} {
		text, err := output("", b.host, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "completions/" + name, data: []byte(text + "\n")})
	}
	man := filepath.Join(work, "man1")
	if _, err := output("", b.host, "man", man); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(man, p.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "man/man1/" + p.Name(), data: text})
	}
	return files, nil
}

// platform builds the archive and the bill of materials of "linux/amd64".
func (b *build) platform(name, work string) error {
	system, processor, ok := strings.Cut(name, "/")
	if !ok {
		return errors.New("no platform (as linux/amd64)")
	}
	program := "overlapse"
	if system == "windows" {
		program += ".exe"
	}
	built := filepath.Join(work, system+"-"+processor)
	if err := b.compile(built, "GOOS="+system, "GOARCH="+processor); err != nil {
		return err
	}
	data, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	components, err := b.components(built)
	if err != nil {
		return err
	}
	licences, err := b.licences(components)
	if err != nil {
		return err
	}
	files := append(slices.Clone(b.shared), file{name: program, data: data, program: true}, file{name: "THIRD-PARTY.txt", data: licences})
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	title := fmt.Sprintf("overlapse_%s_%s_%s", b.version, system, processor)
	bill, err := b.bill(components, system, processor, data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.out, title+".cdx.json"), bill, 0o666); err != nil {
		return err
	}
	pack, ending := tarball, ".tar.gz"
	if system == "windows" {
		pack, ending = zipped, ".zip"
	}
	packed, err := pack(title, files, b.date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, title+ending), packed, 0o666)
}

// checksums writes the file that sha256sum --check reads.
func (b *build) checksums() error {
	entries, err := os.ReadDir(b.out) // sorted
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(b.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), text.Bytes(), 0o666)
}

// output is what a command prints, without the line's end.
func output(dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(text), "\n"), nil
}
