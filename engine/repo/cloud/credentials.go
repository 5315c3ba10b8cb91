package cloud

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"strings"

	"nereid/engine/status"
)

// credentialPath is the environment variable with the path of Triton's credential file.
const credentialPath = "TRITON_CLOUD_CREDENTIAL_PATH"

// s3Credential, gcsCredential and azureCredential are the entries of Triton's credential file. All fields may be
// empty. Then the provider's default credentials are used, or else none.
type s3Credential struct {
	KeyID        string `json:"key_id"`
	SecretKey    string `json:"secret_key"`
	SessionToken string `json:"session_token"`
	Region       string `json:"region"`
	Profile      string `json:"profile"`
}

type gcsCredential string // path of a service account's key file

type azureCredential struct {
	Account  string `json:"account_str"`
	Key      string `json:"account_key"`
	AuthType string `json:"auth_type"` // key, managed_identity or default
	ClientID string `json:"client_id"`
}

// credentialFile is Triton's credential file: entries by kind of storage and prefix of the address.
type credentialFile struct {
	GS map[string]gcsCredential   `json:"gs"`
	S3 map[string]s3Credential    `json:"s3"`
	AS map[string]azureCredential `json:"as"`
}

// env looks up an environment variable, "" if it is not set.
func (o Options) env(name string) string {
	v, _ := o.Lookup(name)
	return v
}

// readCredentials reads the file that the environment names, nil if it names none.
func (o Options) readCredentials() (*credentialFile, error) {
	path := o.env(credentialPath)
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "%s: %w", credentialPath, err)
	}
	c := new(credentialFile)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, status.Errorf(status.InvalidArg, "%s: %s is not a file of credentials "+
			"({\"s3\": {\"\": {\"key_id\": …}}, \"gs\": …, \"as\": …}): %w", credentialPath, path, err)
	}
	return c, nil
}

// credential returns the credential for an address: the entry of the credential file with the longest matching prefix,
// or without such a file what the environment contains. An entry with the name "" matches every address.
func credential[T any](o Options, text string, entries func(*credentialFile) map[string]T, env func() T) (T, error) {
	var found T
	file, err := o.readCredentials()
	if err != nil {
		return found, err
	}
	if file == nil {
		return env(), nil
	}
	best := -1
	for name, c := range entries(file) {
		if strings.HasPrefix(text, name) && len(name) > best {
			found, best = c, len(name)
		}
	}
	if best < 0 {
		return found, status.Errorf(status.InvalidArg,
			"%s: no entry fits %s; add one for it, or one named \"\" for all", credentialPath, text)
	}
	return found, nil
}

func (o Options) s3Credential(text string) (s3Credential, error) {
	entries := func(f *credentialFile) map[string]s3Credential { return f.S3 }
	return credential(o, text, entries, func() s3Credential {
		return s3Credential{
			KeyID: o.env("AWS_ACCESS_KEY_ID"), SecretKey: o.env("AWS_SECRET_ACCESS_KEY"),
			SessionToken: o.env("AWS_SESSION_TOKEN"), Profile: o.env("AWS_PROFILE"),
			Region: cmp.Or(o.env("AWS_DEFAULT_REGION"), o.env("AWS_REGION")),
		}
	})
}

func (o Options) gcsCredential(text string) (gcsCredential, error) {
	entries := func(f *credentialFile) map[string]gcsCredential { return f.GS }
	return credential(o, text, entries, func() gcsCredential {
		return gcsCredential(o.env("GOOGLE_APPLICATION_CREDENTIALS"))
	})
}

func (o Options) azureCredential(text string) (azureCredential, error) {
	entries := func(f *credentialFile) map[string]azureCredential { return f.AS }
	return credential(o, text, entries, func() azureCredential {
		return azureCredential{
			Account: o.env("AZURE_STORAGE_ACCOUNT"), Key: o.env("AZURE_STORAGE_KEY"),
			AuthType: o.env("AZURE_STORAGE_AUTH_TYPE"), ClientID: o.env("AZURE_STORAGE_CLIENT_ID"),
		}
	})
}
