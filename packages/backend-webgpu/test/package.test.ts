// Tags: proof
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import * as entry from "@backplane/backend-webgpu";
import * as bare from "@backplane/backend-webgpu/bare";
import { assert } from "chai";

describe("@backplane/backend-webgpu", () => {
  it("is reached through its exports map, with no more than what is meant for users", () => {
    assert.sameMembers(Object.keys(entry), [
      "createWebGpuBackend",
      "isWebGpuBackend",
      "listAdapters",
      "loadTuning",
      "saveTuning",
      "variantNames",
      "webgpu",
    ]);
  });

  it("has the same exports in browsers, but for those about files", async () => {
    const browser = await import("#src/browser.js");
    assert.sameMembers([...Object.keys(browser), "loadTuning", "saveTuning"], Object.keys(entry));
  });

  it("has an entry without kernels, with the same exports but for names of variants and files", async () => {
    const own = ["loadTuning", "saveTuning", "variantNames"];
    assert.sameMembers([...Object.keys(bare), ...own], Object.keys(entry));
    assert.sameMembers(Object.keys(await import("#src/bare-browser.js")), Object.keys(bare));
  });
});

/** What a program can say that has no types of WebGPU. */
const plain = `
import { createWebGpuBackend, isWebGpuBackend, listAdapters, webgpu } from "@backplane/backend-webgpu";
import { webgpu as bare } from "@backplane/backend-webgpu/bare";
import { gemm, unary } from "@backplane/backend-webgpu/kernels";
import type { NativeDevice, WebGpuBackend, WebGpuOptions } from "@backplane/backend-webgpu";
export const options: WebGpuOptions = { tier: "baseline", log: (line) => void line.length };
export const backend: WebGpuBackend = createWebGpuBackend(options);
export const provider = webgpu({ powerPreference: "low-power" });
export const names = (await listAdapters()).map(({ device }) => device.name);
export const ours: boolean = isWebGpuBackend(provider.create());
export const some = bare({ kernels: [gemm, unary], tier: "baseline" }).create();
// @ts-expect-error: no kernel
bare({ kernels: [{}] });
// @ts-expect-error: no tier of that name
export const refused: WebGpuOptions = { tier: "fastest" };
`;

const untyped = `${plain}
declare const device: object;
const same: NativeDevice = device;
export const buffer: object = createWebGpuBackend({ device: same }).exportBuffer(backend.alloc(16)).buffer;
`;

const typed = `${plain}
declare const device: GPUDevice;
declare const adapter: GPUAdapter;
const same: NativeDevice = device;
export const buffer: GPUBuffer = createWebGpuBackend({ device: same }).exportBuffer(backend.alloc(16)).buffer;
export const handle = createWebGpuBackend({ adapter }).importBuffer(buffer);
// @ts-expect-error: an object is no device
createWebGpuBackend({ device: {} });
// @ts-expect-error: a device is no buffer
backend.importBuffer(device);
`;

const language = ["es2023", "esnext.disposable"];
const withDom = [...language, "dom"];

const node = { module: "nodenext" };
const browser = { module: "esnext", moduleResolution: "bundler", customConditions: ["browser"] };

describe("types of @backplane/backend-webgpu", () => {
  for (const [setting, text, options] of [
    ["without any types of WebGPU, in Node.js", untyped, { ...node, lib: language }],
    ["without any types of WebGPU, in browsers", untyped, { ...browser, lib: language }],
    ["with the library dom", typed, { ...browser, lib: withDom }],
    // Whose own text needs a part of the library dom, and contradicts the rest.
    ["with @webgpu/types", typed, { ...node, lib: language, types: ["@webgpu/types"], skipLibCheck: true }],
    ["with both", typed, { ...browser, lib: withDom, types: ["@webgpu/types"], skipLibCheck: true }],
  ] as const)
    it(`compile ${setting}`, () => {
      assert.equal(compile(text, options), "");
    });

  it("are those of WebGPU where it has any", () => {
    // The check itself can fail.
    assert.match(compile(typed, { ...node, lib: language }), /GPUDevice/);
  });
});

/** What the compiler says of a program that uses the package as it is built; nothing if it is right. */
function compile(text: string, more: object): string {
  const strict = { strict: true, exactOptionalPropertyTypes: true, noEmit: true };
  const compilerOptions = { ...strict, target: "es2023", types: [], ...more };
  const folder = mkdtempSync(join(tmpdir(), "consumer-"));
  try {
    // A folder of its own: types that are installed for this repository are out of sight.
    mkdirSync(join(folder, "node_modules/@backplane"), { recursive: true });
    mkdirSync(join(folder, "node_modules/@webgpu"));
    const own = dirname(require.resolve("@backplane/backend-webgpu/package.json"));
    symlinkSync(own, join(folder, "node_modules/@backplane/backend-webgpu"));
    symlinkSync(
      dirname(require.resolve("@webgpu/types/package.json")),
      join(folder, "node_modules/@webgpu/types"),
    );
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    writeFileSync(join(folder, "consumer.ts"), text);
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions, include: ["consumer.ts"] }),
    );
    const compiler = join(dirname(require.resolve("typescript/package.json")), "bin/tsc");
    const { stdout, stderr } = spawnSync(process.execPath, [compiler, "-p", folder], { encoding: "utf8" });
    return stdout + stderr;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const require = createRequire(import.meta.url);
