package cloud

import "testing"

func TestParseAddress(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"s3://bucket", "s3://bucket/"},
		{"s3://bucket/a/b/", "s3://bucket/a/b/"},
		{"s3://bucket//a///b", "s3://bucket/a/b/"},
		{"s3://127.0.0.1:9000/bucket/a", "s3://http://127.0.0.1:9000/bucket/a/"},
		{"s3://minio.local:9000/bucket", "s3://http://minio.local:9000/bucket/"},
		{"s3://https://minio.local:9000/bucket/a", "s3://https://minio.local:9000/bucket/a/"},
		{"s3://http://minio.local/bucket/a", "s3://http://minio.local/bucket/a/"},
		{"gs://bucket/a", "gs://bucket/a/"},
		{"as://account/container/a", "as://account/container/a/"},
		{"as://account.blob.core.windows.net/container/a", "as://account/container/a/"},
		{"as://http://127.0.0.1:10000/devstoreaccount1/container/a",
			"as://http://127.0.0.1:10000/devstoreaccount1/container/a/"},
		{"as://127.0.0.1:10000/devstoreaccount1/container", "as://http://127.0.0.1:10000/devstoreaccount1/container/"},
		{"hdfs://namenode:9870/models/a", "hdfs://http://namenode:9870/models/a/"},
		{"hdfs://namenode/models", "hdfs://http://namenode:9870/models/"},
		{"hdfs://https://gateway:14000/models/", "hdfs://https://gateway:14000/models/"},
		{"hdfs://[::1]/models/", "hdfs://http://[::1]:9870/models/"},
	} {
		a, err := parseAddress(tt.text)
		if err != nil || a.String() != tt.want {
			t.Errorf("parseAddress(%s) = %s, %v; want %s", tt.text, a, err, tt.want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add("s3://https://host:9000/bucket/a/../b")
	f.Add("hdfs://[::1]:9870/a/b")
	f.Add("hdfs://0]0/0")
	f.Add("hdfs://[::]#0/0")
	f.Add("as://a.blob.core.windows.net/c/d")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		again, err := parseAddress(a.String())
		if err != nil || again.String() != a.String() {
			t.Errorf("parseAddress(%q) = %s, and of that %s, %v", text, a, again, err)
		}
	})
}
