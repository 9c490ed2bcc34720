import type { FindGpu } from "./device/index.js";
import { type AdapterListing, listAdaptersOf } from "./runtime/adapters.js";

/** Present in windows and in workers, if the browser has WebGPU and the page is a secure context. */
export const findBrowserGpu: FindGpu = async () => (globalThis.navigator as Navigator | undefined)?.gpu;

/** Returns the adapters that the browser shows, without opening a device; none if it has no WebGPU. */
export async function listAdapters(): Promise<readonly AdapterListing[]> {
  const gpu = await findBrowserGpu();
  return gpu === undefined ? [] : listAdaptersOf([gpu]);
}
