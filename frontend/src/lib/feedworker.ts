// The SharedWorker that reads the event stream for all tabs of a browser.
import { Feed } from "./feed";

const feed = new Feed(location.origin);
(self as unknown as { onconnect: (e: MessageEvent) => void }).onconnect = (e) => {
  const port = e.ports[0];
  if (port) feed.serve(port);
};
