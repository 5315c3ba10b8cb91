package terminal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nereid/app/command"
	"nereid/app/options"
)

// ManualName is the hidden command that writes the manual pages.
const ManualName = "__manual"

const manualEnd = `.SH FILES
.TP
/etc/nereid/nereid.yaml
Options of the service; see
.BR nereid\-serve (1),
\fB\-\-config\-file\fR.
.TP
/var/lib/nereid
Models, history and tokens of the service.
.TP
~/.local/share/nereid
The same for a server that a user starts.
.SH ENVIRONMENT
.TP
NEREID_CONFIG, NEREID_DATA_DIR, NEREID_ONNXRUNTIME_LIBRARY
As \fB\-\-config\-file\fR, \fB\-\-data\-dir\fR and \fB\-\-onnxruntime\-library\fR.
.TP
NEREID_TOKEN
A token of the server, and of the commands that are its clients.
.TP
NEREID_URL
The server that commands use.
`

// Manual writes the manual pages of all commands into the folder that the argument names: nereid.1, nereid-serve.1
// with the options, a page for each command with a help, and nereid-desktop.1. SOURCE_DATE_EPOCH gives their date.
func Manual(ctx context.Context, e *command.Env, all []command.Command, args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(e.Stderr, "error: name the folder of the pages")
		return 2
	}
	epoch, _ := e.Lookup("SOURCE_DATE_EPOCH")
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		seconds = time.Now().Unix()
	}
	head := func(page string) string {
		return fmt.Sprintf(".TH %s 1 %q %q\n.SH NAME\n", command.Roff(strings.ToUpper(page)),
			time.Unix(seconds, 0).UTC().Format(time.DateOnly), "Nereid "+e.Version)
	}
	list := commandPages(all)
	pages := map[string]string{
		"nereid": head("nereid") + "nereid \\- inference server with Triton's protocols, for one machine\n" +
			".SH SYNOPSIS\n.B nereid\n[\\fIcommand\\fR] [\\fIoptions\\fR]\n" + list + manualEnd,
		"nereid-desktop": head("nereid-desktop") + "nereid\\-desktop \\- Nereid with a window\n" +
			".SH SYNOPSIS\n.B nereid\\-desktop\n[\\fIcommand\\fR] [\\fIoptions\\fR] [\\fIfile\\fR ...]\n" +
			".SH DESCRIPTION\nWithout a command, " +
			"it serves and shows the GUI in a window. " +
			"The window opens the import of the files: ONNX models, zip files or model folders.\n" +
			list + ".SH OPTIONS\n" + options.Manual() + manualEnd,
		"nereid-serve": head("nereid-serve") + "nereid\\-serve \\- serve model repositories\n" +
			".SH SYNOPSIS\n.B nereid serve\n[\\fIoptions\\fR]\n.SH OPTIONS\n" + options.Manual() + manualEnd,
	}
	for _, c := range all {
		if text := helpOf(ctx, e, c); text != "" && c.Names[0] != "serve" {
			name := "nereid-" + c.Names[0]
			pages[name] = head(name) + command.Roff(name) + ` \- ` + command.Roff(c.Help) +
				"\n.SH DESCRIPTION\n.nf\n" + command.Roff(text) + ".fi\n.SH SEE ALSO\n.BR nereid (1)\n"
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(args[0], name+".1"), []byte(text), 0o644); err != nil {
			return e.ExitStatus(err, "")
		}
	}
	return 0
}

// commandPages is the section of the commands.
func commandPages(all []command.Command) string {
	var b strings.Builder
	b.WriteString(".SH COMMANDS\n")
	for _, c := range all {
		if c.Hidden || c.Help == "" {
			continue
		}
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR %s\n%s\n", command.Roff(strings.TrimSpace("nereid "+c.Names[0])),
			command.Roff(c.Args), command.Roff(c.Help))
	}
	return b.String()
}

// helpOf is what a command prints for --help, "" if it has no such text.
func helpOf(ctx context.Context, e *command.Env, c command.Command) string {
	if c.Hidden || c.Help == "" || c.Names[0] == "" {
		return ""
	}
	var help bytes.Buffer
	quiet := *e
	quiet.Program, quiet.Stdin, quiet.Stdout, quiet.Stderr = "nereid", strings.NewReader(""), &help, io.Discard
	if c.Run(ctx, &quiet, []string{"--help"}) != 0 || !strings.Contains(help.String(), "Usage:\n") {
		return ""
	}
	return help.String()
}
