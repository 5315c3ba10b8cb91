// Package cloud reads model repositories from S3, Google Cloud Storage and Azure Blob Storage, by Triton's addresses:
//
//	s3://bucket/path   s3://host:port/bucket/path   s3://https://host:port/bucket/path
//	gs://bucket/path
//	as://account/container/path   as://account.blob.core.windows.net/container/path   as://http://host:port/account/container/path
//
// What a load needs is copied to a folder of this machine, by content: an object is downloaded once, also over a restart,
// and what was broken off goes on where it ended. Package repo says what is in a repository; this package only lists and
// copies. Goroutines: Fetch starts some and waits for them.
package cloud
