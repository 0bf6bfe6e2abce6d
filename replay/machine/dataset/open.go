package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// IndexFile is the name of the index in a dataset's folder.
const IndexFile = "index.yaml"

// A Split says what a set of rows may be used for.
type Split string

// The splits. Rows of Blind became known only after the predictions for them were
// fixed. Rows of Develop informed the model: rules were changed after looking at
// them. Profiles are read off rows of Calibrate.
const (
	Blind     Split = "blind"
	Develop   Split = "develop"
	Calibrate Split = "calibrate"
)

// A Dataset is a folder of measured sets.
type Dataset struct {
	Dir  string
	Sets []Set // in the order of the index

	files, absent map[string]string // sums by path
}

// A Set is one file of rows, its provenance and its stamps.
type Set struct {
	Name     string   `yaml:"name"` // unique
	File     string   `yaml:"rows"` // relative to the index
	Split    Split    `yaml:"split"`
	About    string   `yaml:"about"` // what was measured, in one sentence
	Host     string   `yaml:"host"`
	Driver   string   `yaml:"driver"` // of the GPU
	Software string   `yaml:"software"`
	Date     string   `yaml:"date"` // of the first row, UTC
	Command  string   `yaml:"command"`
	Stamps   []Stamps `yaml:"stamps"`

	Rows []Row `yaml:"-"`
}

// Stamps are start and end times of the workgroups of one kernel on all ranks, of
// a run like that of a row.
type Stamps struct {
	Name  string `yaml:"name"`
	Files string `yaml:"files"` // pattern, relative to the set's file of rows
	Row   string `yaml:"row"`   // id of the row whose workload and strategy ran; "" with Trace
	Trace string `yaml:"trace"` // capture of kernels that ran side by side as captured
	// Persistent: the stamped kernel loops over the tiles that form a grid in the trace.
	Persistent bool `yaml:"persistent"`
	// Late: the kernel began long after its producer had ended, because kernels with
	// stamps are compiled at their first launch.
	Late bool `yaml:"late"`
}

// index is the file.
type index struct {
	Sets   []Set             `yaml:"sets"`
	Files  map[string]string `yaml:"files"`  // sha256 by path
	Absent map[string]string `yaml:"absent"` // of files that were measured and are not included
}

// Open reads the index of a folder, verifies the checksum of every file that it
// lists and reads all rows. Errors name file, position and what to do.
func Open(dir string) (*Dataset, error) {
	file := filepath.Join(dir, IndexFile)
	text, err := guard.ReadFile(file)
	if err != nil {
		return nil, &trace.SyntaxError{
			File: file, Msg: "cannot read the index of the dataset",
			Cure: "give a folder with an " + IndexFile + ", or a file of rows", Err: cause(err),
		}
	}
	var x index
	if err := yaml.UnmarshalWithOptions(text, &x, yaml.Strict()); err != nil {
		return nil, indexError(file, err)
	}
	d := &Dataset{Dir: dir, Sets: x.Sets, files: x.Files, absent: x.Absent}
	if err := d.verify(file); err != nil {
		return nil, err
	}
	return d, d.read(file)
}

func indexError(file string, err error) error {
	e := &trace.SyntaxError{File: file, Msg: err.Error(), Cure: "see samples/measurements/README.md"}
	var ye yaml.Error
	if errors.As(err, &ye) && ye.GetToken() != nil {
		e.Pos, e.Unit, e.Msg = int64(ye.GetToken().Position.Line), "line", ye.GetMessage()
	}
	return e
}

// cause returns an error without its path, because the message already has the path.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// verify compares the files of the folder with the sums in the index.
func (d *Dataset) verify(index string) error {
	var errs []error
	fail := func(file, msg, cure string, err error) {
		errs = append(errs, &trace.SyntaxError{File: filepath.Join(d.Dir, filepath.FromSlash(file)), Msg: msg, Cure: cure, Err: err})
	}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		switch got, err := guard.Digest(filepath.Join(d.Dir, filepath.FromSlash(name))); {
		case err != nil:
			fail(name, "listed in "+index+" and cannot be read", "restore it with git checkout", cause(err))
		case got != d.files[name]:
			fail(name, fmt.Sprintf("its SHA-256 is %s, %s has %s", got, index, d.files[name]),
				"restore the file, or update the index if the change is intended", nil)
		}
	}
	return errors.Join(errs...)
}

// read reads the rows of all sets and checks them against each other.
func (d *Dataset) read(index string) error {
	var errs []error
	fail := func(s *Set, cure, format string, args ...any) {
		errs = append(errs, &trace.SyntaxError{File: index, Msg: fmt.Sprintf("set %q: ", s.Name) +
			fmt.Sprintf(format, args...), Cure: cure})
	}
	names, ids := map[string]bool{}, map[string]*Row{}
	for i := range d.Sets {
		s := &d.Sets[i]
		switch {
		case s.Name == "" || names[s.Name]:
			fail(s, "", "every set needs a name of its own")
		case !slices.Contains([]Split{Blind, Develop, Calibrate}, s.Split):
			fail(s, "write blind, develop or calibrate", "split %q is unknown", s.Split)
		case s.About == "" || s.Host == "" || s.Driver == "" || s.Date == "":
			fail(s, "", "about, host, driver or date is missing")
		case d.files[s.File] == "":
			fail(s, "add it", "%s has no checksum under files", s.File)
		}
		names[s.Name] = true
		if err := d.readSet(s); err != nil {
			errs = append(errs, err)
			continue
		}
		for j := range s.Rows {
			r := &s.Rows[j]
			at := func(cure, format string, args ...any) {
				errs = append(errs, &trace.SyntaxError{
					File: r.File, Pos: int64(r.Line), Unit: "line",
					Msg: fmt.Sprintf(format, args...), Cure: cure,
				})
			}
			if first := ids[r.ID]; first != nil {
				at("give every row of the dataset an id of its own", "id %q is in %s, line %d already", r.ID, first.File, first.Line)
			}
			ids[r.ID] = r
			if in := path.Join(path.Dir(s.File), r.Trace); r.Trace != "" && !listed(d.files, in) && !listed(d.absent, in) {
				at("list its files under files, or under absent if they are not included", "trace %s has no checksum in %s", r.Trace, index)
			}
		}
		for _, st := range s.Stamps {
			if (st.Row == "") == (st.Trace == "") || st.Row != "" && s.Row(st.Row) == nil {
				fail(s, "write the id of a row of the set, or a trace", "stamps %s belong to no row", st.Name)
			}
		}
	}
	return errors.Join(errs...)
}

// OpenRows reads a file of rows as a dataset of one set, which has no name. Traces are relative to the file's folder.
func OpenRows(file string) (*Dataset, error) {
	d := &Dataset{Dir: filepath.Dir(file), Sets: []Set{{File: filepath.Base(file)}}}
	return d, d.readSet(&d.Sets[0])
}

func (d *Dataset) readSet(s *Set) error {
	name := d.Path(s, filepath.Base(s.File))
	f, err := guard.Open(name)
	if err != nil {
		return &trace.SyntaxError{
			File: name, Msg: cause(err).Error(), Cure: "give measured rows, one JSON object per line; samples/capture writes them",
		}
	}
	defer f.Close()
	s.Rows, err = readRows(f, name)
	return err
}

// Row returns the row with an id, or nil.
func (s *Set) Row(id string) *Row {
	if i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.ID == id }); i >= 0 {
		return &s.Rows[i]
	}
	return nil
}

// Path returns the path of a file or folder that a set names relative to its rows.
func (d *Dataset) Path(s *Set, name string) string {
	return filepath.Join(d.Dir, filepath.FromSlash(path.Dir(s.File)), filepath.FromSlash(name))
}

// Absent reports whether a trace that a row of the set names was measured and is
// listed in the index, but not included in the folder.
func (d *Dataset) Absent(s *Set, name string) bool {
	in := path.Join(path.Dir(s.File), name)
	return listed(d.absent, in) && !listed(d.files, in)
}

// listed reports whether the index has a checksum of a file, or of any file of a folder.
func listed(sums map[string]string, name string) bool {
	if _, ok := sums[name]; ok {
		return true
	}
	for file := range sums {
		if strings.HasPrefix(file, name+"/") {
			return true
		}
	}
	return false
}
