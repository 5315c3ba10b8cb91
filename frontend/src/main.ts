import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import { live } from "./lib/live.svelte";

const target = document.getElementById("app");
if (!target) throw new Error("index.html has no element #app");
live.start();
mount(App, { target });
