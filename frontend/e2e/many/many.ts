import { mount } from "svelte";
import Many from "./Many.svelte";

mount(Many, { target: document.getElementById("app")! });
