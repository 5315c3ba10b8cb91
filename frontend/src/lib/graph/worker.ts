import { layout, type Plan } from "./layout";

addEventListener("message", (e: MessageEvent<Plan>) => postMessage(layout(e.data)));
