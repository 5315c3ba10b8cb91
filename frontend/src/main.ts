import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import { entry } from "./lib/entry.svelte";

const target = document.getElementById("app");
if (!target) throw new Error("index.html has no element #app");
if (window.__kiosk) {
  void import("./views/kiosk/Kiosk.svelte").then(({ default: Kiosk }) => mount(Kiosk, { target }));
} else {
  void entry.begin();
  mount(App, { target });
}
