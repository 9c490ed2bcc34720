/**
 * Gives Node.js the globals of pages with WebGPU, where libraries look for them: `navigator.gpu` of Dawn, and the constants.
 * f16 is there on NVIDIA, too, where Dawn hides it, since some libraries have no f16 without it.
 * In a browser nothing changes.
 */
export async function provideGpu(): Promise<void> {
  if (globalThis.navigator?.gpu !== undefined) return;
  const { create, globals } = await import("webgpu");
  Object.assign(globalThis, globals);
  // Node.js 20 has no navigator.
  if (globalThis.navigator === undefined)
    Object.defineProperty(globalThis, "navigator", { value: { userAgent: "Node.js" }, configurable: true });
  Object.defineProperty(globalThis.navigator, "gpu", {
    value: create(["enable-dawn-features=vulkan_enable_f16_on_nvidia"]),
    configurable: true,
  });
}
