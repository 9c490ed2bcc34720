// Opens an adapter and a device through Dawn and prints what it found, as one line of JSON.
import { create } from "webgpu";

// Held for the life of the process: Dawn aborts when its instance is collected before its devices.
const instance = create([]);
const adapter = await instance.requestAdapter();
if (adapter === null) {
  console.log(JSON.stringify({ found: false }));
} else {
  const device = await adapter.requestDevice();
  const { vendor, architecture, description } = adapter.info;
  console.log(JSON.stringify({ found: true, vendor, architecture, description }));
  device.destroy();
}
