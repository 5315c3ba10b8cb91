package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"nereid/engine/repo"
)

// s3Bucket is a bucket of S3 or of compatible storage.
type s3Bucket struct {
	client *s3.Client
	name   string
}

// openS3 opens a bucket with the given keys, else with those of the profile or AWS's default credentials, else
// anonymously. The bucket is part of the path of requests, as in Triton.
func openS3(ctx context.Context, a address, text string, o Options) (bucket, error) {
	c, err := o.s3Credential(text)
	if err != nil {
		return nil, err
	}
	httpClient := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = responseTimeout // downloads may take longer
	})
	options := []func(*config.LoadOptions) error{config.WithHTTPClient(httpClient)}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	keys := c.KeyID != "" && c.SecretKey != ""
	switch {
	case keys:
		options = append(options, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(c.KeyID, c.SecretKey, c.SessionToken)))
	case c.Profile != "":
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the AWS configuration cannot be read: %w", err)
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if !keys {
		find, stop := context.WithTimeout(ctx, 5*time.Second)
		_, err := cfg.Credentials.Retrieve(find)
		stop()
		if err != nil && c.Profile != "" {
			return nil, fmt.Errorf("the AWS profile %q has no credentials: %w", c.Profile, err)
		}
		if err != nil {
			o.Log.Info("no AWS credentials were found; the bucket is read anonymously", "repository", text)
			cfg.Credentials = aws.AnonymousCredentials{}
		}
	}
	return &s3Bucket{name: a.bucket, client: s3.NewFromConfig(cfg, func(s *s3.Options) {
		s.UsePathStyle = true
		if a.endpoint != "" {
			s.BaseEndpoint = aws.String(a.endpoint)
		}
		// Not all S3-compatible servers support the newer checksums. The content is checked by its MD5.
		s.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		s.RetryMaxAttempts = 3
		if o.Transport != nil {
			s.HTTPClient = o.client()
		}
	})}, nil
}

func (b *s3Bucket) list(ctx context.Context, prefix string, each func(repo.File) error) error {
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return s3Error(err)
		}
		for _, x := range page.Contents {
			// The ETag identifies the content. It is often the MD5, but not with KMS, so it cannot be used as one.
			err := each(repo.File{Path: aws.ToString(x.Key), Size: aws.ToInt64(x.Size),
				Modified: aws.ToTime(x.LastModified), Tag: contentTag + strings.Trim(aws.ToString(x.ETag), `"`)})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *s3Bucket) open(ctx context.Context, f repo.File, from int64) (io.ReadCloser, error) {
	in := &s3.GetObjectInput{Bucket: &b.name, Key: &f.Path,
		IfMatch: aws.String(`"` + strings.TrimPrefix(f.Tag, contentTag) + `"`)}
	if from > 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", from))
	}
	out, err := b.client.GetObject(ctx, in)
	if err != nil {
		return nil, s3Error(err)
	}
	if from > 0 && !strings.HasPrefix(aws.ToString(out.ContentRange), fmt.Sprintf("bytes %d-", from)) {
		_ = out.Body.Close() // nothing was read of it
		return nil, errNoRange
	}
	return out.Body, nil
}

// s3Error explains an error. If the server refuses the credentials, the text says where they come from.
func s3Error(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "Forbidden", "ExpiredToken", "InvalidToken":
		return fmt.Errorf("S3 refuses the credentials (%s: %s); check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "+
			"the profile, or the file that %s names", api.ErrorCode(), api.ErrorMessage(), credentialPath)
	case "NoSuchBucket":
		return fmt.Errorf("there is no such bucket (%s: %s)", api.ErrorCode(), api.ErrorMessage())
	case "PreconditionFailed", "NoSuchKey":
		return fmt.Errorf("%w (%s)", errChanged, api.ErrorCode())
	}
	return err
}
