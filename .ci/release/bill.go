package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// A component is a module that is linked into a program, or the charts' library that it carries.
type component struct {
	kind, path, version string // kind: golang or npm
	sum                 string // SHA-256 in hex; "": none
	folder              string // of its licence; "": that of Go
}

func (c component) url() string { return fmt.Sprintf("pkg:%s/%s@%s", c.kind, c.path, c.version) }

// components are what a program consists of, as the program itself states it.
func (b *build) components(program string) ([]component, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	folders, err := b.folders()
	if err != nil {
		return nil, err
	}
	list := []component{{kind: "golang", path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return nil, fmt.Errorf("%s is replaced in go.mod", m.Path)
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		if folders[m.Path] == "" {
			return nil, fmt.Errorf("%s: not in the module cache", m.Path)
		}
		list = append(list, component{kind: "golang", path: m.Path, version: m.Version, sum: hex.EncodeToString(sum), folder: folders[m.Path]})
	}
	assets := filepath.Join(b.root, "viz", "html")
	text, err := os.ReadFile(filepath.Join(assets, "package.json"))
	if err != nil {
		return nil, err
	}
	var scripts struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &scripts); err != nil {
		return nil, fmt.Errorf("viz/html/package.json: %w", err)
	}
	if len(scripts.Dependencies) != 1 || scripts.Dependencies["echarts"] == "" {
		return nil, errors.New("viz/html/package.json: not echarts alone: list the others here")
	}
	return append(list, component{kind: "npm", path: "echarts", version: scripts.Dependencies["echarts"], folder: filepath.Join(assets, "assets")}), nil
}

// folders are those of the modules' files, by path.
func (b *build) folders() (map[string]string, error) {
	text, err := output(b.root, "go", "list", "-m", "-json", "all")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var m struct{ Path, Dir string }
		switch err := d.Decode(&m); err {
		case nil:
			folders[m.Path] = m.Dir
		case io.EOF:
			return folders, nil
		default:
			return nil, err
		}
	}
}

// licences are the texts of all components. One without a licence is an error.
func (b *build) licences(list []component) ([]byte, error) {
	var text bytes.Buffer
	for _, p := range list {
		if p.folder == "" {
			root, err := output("", "go", "env", "GOROOT")
			if err != nil {
				return nil, err
			}
			p.folder = root
		}
		entries, err := os.ReadDir(p.folder)
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			name := strings.ToUpper(e.Name())
			if e.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "NOTICE") && !strings.HasPrefix(name, "COPYING") {
				continue
			}
			data, err := os.ReadFile(filepath.Join(p.folder, e.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			fmt.Fprintf(&text, "%s %s, %s\n\n%s\n%s\n\n", p.path, p.version, e.Name(), bytes.TrimSpace(data), strings.Repeat("-", 80))
		}
		if !found {
			return nil, fmt.Errorf("%s has no licence in %s", p.path, p.folder)
		}
	}
	return text.Bytes(), nil
}

// bill is the bill of materials of a program in CycloneDX, without date and serial number,
// which would differ from build to build.
func (b *build) bill(list []component, system, processor string, program []byte) ([]byte, error) {
	const own = "pkg:golang/github.com/overlapse/overlapse"
	var components []cdx.Component
	var needs []string
	for _, p := range list {
		c := cdx.Component{BOMRef: p.url(), Type: cdx.ComponentTypeLibrary, Name: p.path, Version: p.version, PackageURL: p.url()}
		if p.sum != "" {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.sum}}
		}
		components, needs = append(components, c), append(needs, p.url())
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: own, Type: cdx.ComponentTypeApplication, Name: "overlapse", Version: "v" + b.version, PackageURL: own + "@v" + b.version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(program))}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &[]cdx.Property{{Name: "commit", Value: b.commit}, {Name: "GOOS", Value: system}, {Name: "GOARCH", Value: processor}},
	}}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: own, Dependencies: &needs}}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
