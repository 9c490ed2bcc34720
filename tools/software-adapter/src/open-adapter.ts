// Opens an adapter and a device through Dawn and prints them as one line of JSON.
import { create } from "webgpu";
import type { OpenedAdapter } from "./probe.js";

// Held for the life of the process: Dawn aborts when its instance is collected before its devices.
const instance = create([]);
const adapter = await instance.requestAdapter();
let opened: OpenedAdapter;
if (adapter === null) {
  opened = { found: false, reason: "no adapter" };
} else {
  const device = await adapter.requestDevice();
  const { vendor, architecture, description } = adapter.info;
  opened = { found: true, vendor, architecture, description };
  device.destroy();
}
console.log(JSON.stringify(opened));
