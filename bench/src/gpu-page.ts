/**
 * Gives Node.js the globals of pages with WebGPU, where libraries look for them: `navigator.gpu` of Dawn, and the constants.
 * In a browser nothing changes.
 */
export async function provideGpu(): Promise<void> {
  if (globalThis.navigator?.gpu !== undefined) return;
  const { create, globals } = await import("webgpu");
  Object.assign(globalThis, globals);
  // Node.js 20 has no navigator.
  if (globalThis.navigator === undefined)
    Object.defineProperty(globalThis, "navigator", { value: { userAgent: "Node.js" }, configurable: true });
  Object.defineProperty(globalThis.navigator, "gpu", { value: create([]), configurable: true });
}
