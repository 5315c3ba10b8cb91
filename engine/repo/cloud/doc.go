// Package cloud reads model repositories from S3, Google Cloud Storage, Azure Blob Storage, and HDFS through WebHDFS.
// The first three have Triton's addresses; Triton has none for HDFS:
//
//	s3://bucket/path   s3://host:port/bucket/path   s3://https://host:port/bucket/path
//	gs://bucket/path
//	as://account/container/path   as://account.blob.core.windows.net/container/path
//	as://http://host:port/account/container/path
//	hdfs://host:port/path   hdfs://https://host:port/path
//
// s3.go, gcs.go and azure.go use the providers' libraries, which sign the requests; credentials.go says where the keys
// come from.
//
// Files that a load needs are copied to a local folder. Each content is downloaded once, also across restarts, and an
// interrupted download continues where it ended. This package only lists and copies files; package repo interprets
// them. Fetch starts goroutines and waits for them.
package cloud
