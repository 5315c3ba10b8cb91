package cloud

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"

	"nereid/engine/status"
)

// credentialPath is the environment variable that names Triton's file of credentials.
const credentialPath = "TRITON_CLOUD_CREDENTIAL_PATH"

// s3Credential, gcsCredential and azureCredential are the entries of Triton's file of credentials. All fields may be empty: then the
// provider's own ways are tried, and in the end none.
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

// credentialFile is the file, by kind of storage and prefix of the address.
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

// readCredentials reads the file that the environment names; nil if it names none.
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
		return nil, status.Errorf(status.InvalidArg, "%s: %s is not a file of credentials ({\"s3\": {\"\": {\"key_id\": …}}, \"gs\": …, \"as\": …}): %w", credentialPath, path, err)
	}
	return c, nil
}

// longest returns the entry with the longest name that the address begins with. An entry "" fits all.
func longest[T any](all map[string]T, text string) (found T, ok bool) {
	best := -1
	for name, c := range all {
		if strings.HasPrefix(text, name) && len(name) > best {
			found, best, ok = c, len(name), true
		}
	}
	return found, ok
}

func noMatch(text string) error {
	return status.Errorf(status.InvalidArg, "%s: no entry fits %s; add one for it, or one named \"\" for all", credentialPath, text)
}

func (o Options) s3Credential(text string) (s3Credential, error) {
	file, err := o.readCredentials()
	if err != nil {
		return s3Credential{}, err
	}
	if file != nil {
		c, ok := longest(file.S3, text)
		if !ok {
			return c, noMatch(text)
		}
		return c, nil
	}
	c := s3Credential{
		KeyID: o.env("AWS_ACCESS_KEY_ID"), SecretKey: o.env("AWS_SECRET_ACCESS_KEY"), SessionToken: o.env("AWS_SESSION_TOKEN"),
		Region: o.env("AWS_DEFAULT_REGION"), Profile: o.env("AWS_PROFILE"),
	}
	if c.Region == "" {
		c.Region = o.env("AWS_REGION")
	}
	return c, nil
}

func (o Options) gcsCredential(text string) (gcsCredential, error) {
	file, err := o.readCredentials()
	if err != nil {
		return "", err
	}
	if file != nil {
		c, ok := longest(file.GS, text)
		if !ok {
			return c, noMatch(text)
		}
		return c, nil
	}
	return gcsCredential(o.env("GOOGLE_APPLICATION_CREDENTIALS")), nil
}

func (o Options) azureCredential(text string) (azureCredential, error) {
	file, err := o.readCredentials()
	if err != nil {
		return azureCredential{}, err
	}
	if file != nil {
		c, ok := longest(file.AS, text)
		if !ok {
			return c, noMatch(text)
		}
		return c, nil
	}
	return azureCredential{
		Account: o.env("AZURE_STORAGE_ACCOUNT"), Key: o.env("AZURE_STORAGE_KEY"),
		AuthType: o.env("AZURE_STORAGE_AUTH_TYPE"), ClientID: o.env("AZURE_STORAGE_CLIENT_ID"),
	}, nil
}
