// Package alerts serves the alerts of the models, their rules, and the webhook to the page.
package alerts
