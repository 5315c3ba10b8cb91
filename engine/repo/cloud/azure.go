package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"nereid/engine/repo"
)

// azureContainer is a container of Azure Blob Storage.
type azureContainer struct {
	client *container.Client
}

// openAzure opens a container. AZURE_STORAGE_AUTH_TYPE selects the account's key, the machine's managed identity or
// Azure's default credentials. Without any of them the container is read anonymously.
func openAzure(_ context.Context, a address, text string, o Options) (bucket, error) {
	c, err := o.azureCredential(text)
	if err != nil {
		return nil, err
	}
	account := a.account
	if c.Account != "" && a.endpoint == "" {
		account = c.Account // it takes precedence, as in Triton
	}
	at := fmt.Sprintf("https://%s.blob.core.windows.net/%s", account, a.bucket)
	if a.endpoint != "" {
		at = fmt.Sprintf("%s/%s/%s", a.endpoint, a.account, a.bucket)
	}
	options := &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: o.client(), Retry: policy.RetryOptions{MaxRetries: 2},
	}}
	var client *container.Client
	var token azcore.TokenCredential
	switch {
	case c.AuthType == "managed_identity":
		id := &azidentity.ManagedIdentityCredentialOptions{}
		if c.ClientID != "" {
			id.ID = azidentity.ClientID(c.ClientID)
		}
		token, err = azidentity.NewManagedIdentityCredential(id)
	case c.AuthType == "default":
		token, err = azidentity.NewDefaultAzureCredential(nil)
	case c.AuthType != "" && c.AuthType != "key":
		err = fmt.Errorf("AZURE_STORAGE_AUTH_TYPE: %q is none of key, managed_identity, default", c.AuthType)
	case c.Key != "":
		key, kerr := container.NewSharedKeyCredential(account, c.Key)
		if kerr != nil {
			return nil, fmt.Errorf("AZURE_STORAGE_KEY is not the key of an account: %w", kerr)
		}
		client, err = container.NewClientWithSharedKeyCredential(at, key, options)
	default:
		o.Log.Info("no Azure credentials were given; the container is read anonymously", "repository", text)
		client, err = container.NewClientWithNoCredential(at, options)
	}
	if err == nil && token != nil {
		client, err = container.NewClient(at, token, options)
	}
	if err != nil {
		return nil, err
	}
	return &azureContainer{client}, nil
}

func (b *azureContainer) list(ctx context.Context, prefix string, each func(repo.File) error) error {
	pages := b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return azureError(err)
		}
		if page.Segment == nil {
			continue
		}
		for _, x := range page.Segment.BlobItems {
			if x == nil || x.Name == nil || x.Properties == nil {
				continue
			}
			p := x.Properties
			if p.ContentLength == nil || p.ETag == nil {
				continue // a folder of a hierarchical namespace has no content
			}
			f := repo.File{Path: *x.Name, Size: *p.ContentLength, Tag: string(*p.ETag)}
			if p.LastModified != nil {
				f.Modified = *p.LastModified
			}
			if len(p.ContentMD5) == 16 {
				f.MD5 = p.ContentMD5
			}
			if err := each(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *azureContainer) open(ctx context.Context, f repo.File, from int64) (io.ReadCloser, error) {
	tag := azcore.ETag(f.Tag)
	unchanged := &blob.ModifiedAccessConditions{IfMatch: &tag}
	out, err := b.client.NewBlobClient(f.Path).DownloadStream(ctx, &blob.DownloadStreamOptions{
		Range:            blob.HTTPRange{Offset: from},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: unchanged},
	})
	if err != nil {
		return nil, azureError(err)
	}
	return out.Body, nil
}

func azureError(err error) error {
	var resp *azcore.ResponseError
	switch {
	case !errors.As(err, &resp):
		return err
	case bloberror.HasCode(err, bloberror.ContainerNotFound, bloberror.ResourceNotFound):
		return fmt.Errorf("there is no such container, or it is closed to anonymous readers (%s)", resp.ErrorCode)
	case bloberror.HasCode(err, bloberror.ConditionNotMet, bloberror.BlobNotFound):
		return fmt.Errorf("%w (%s)", errChanged, resp.ErrorCode)
	case resp.StatusCode == 401 || resp.StatusCode == 403:
		return fmt.Errorf("storage of Azure refuses the credentials (%d %s); check AZURE_STORAGE_ACCOUNT and "+
			"AZURE_STORAGE_KEY, or the file that %s names", resp.StatusCode, resp.ErrorCode, credentialPath)
	}
	return fmt.Errorf("storage of Azure answers %d %s", resp.StatusCode, resp.ErrorCode)
}
