import { spawnSync } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import {
  createWebGpuBackend,
  type OwnWebGpuKernel,
  type TuningData,
  type TuningEntry,
  type WebGpuBackend,
  type WebGpuKernel,
} from "@backplane/backend-webgpu/bare";
import { gemm, unary } from "@backplane/backend-webgpu/kernels";
import {
  BackendError,
  type ComputeBackend,
  defineOperation,
  download,
  type Operation,
  type OperationName,
  operationNames,
  operations,
  type Region,
  upload,
} from "@backplane/core";
import { assert } from "chai";
import { allKernels } from "#src/kernels/all.js";
import { adviceOn } from "#src/kernels/chosen.js";
import * as list from "#src/kernels/list.js";
import { KernelSet } from "#src/kernels/set.js";
import { TunableShapes } from "#src/tuning/shapes.js";
import { TunedTable } from "#src/tuning/table.js";
import { packageVersion } from "#src/version.js";
import { rejection } from "./support.js";

const chosen: readonly OperationName[] = ["gemm", "batchedGemm", "unary"];
const absent = operationNames.filter((name) => !chosen.includes(name));

function refusalOf(call: () => unknown): BackendError {
  try {
    call();
  } catch (error) {
    if (error instanceof BackendError) return error;
    throw error;
  }
  return assert.fail("nothing was refused");
}

/** An operation and its kernel as somebody may have them: output = 2 input, for one number. */
const twice: OwnWebGpuKernel<{ readonly input: Region<unknown>; readonly output: Region<unknown> }> = {
  operation: defineOperation({
    name: "twice",
    arguments: {
      input: { role: "reads", shape: "1" },
      output: { role: "writes", shape: "1" },
    },
    resolve: (args, binder, read) => ({
      input: read.region(binder, "input", args.input, 1, "f32"),
      output: read.region(binder, "output", args.output, 1, "f32"),
    }),
    flops: () => 1,
  }),
  supports: [{}],
  operands: { input: "f32", output: "f32" },
  workgroups: () => 1,
  wgsl: `
@compute @workgroup_size(1)
fn main() {
  output[parameters.output_offset] = 2.0 * input[parameters.input_offset];
}`,
};

describe("a webgpu backend of chosen kernels", () => {
  let backend: WebGpuBackend;
  beforeEach(async () => {
    backend = createWebGpuBackend({ kernels: [gemm, unary, twice] });
    await backend.init();
  });
  afterEach(() => backend.dispose());

  it("computes what they do, and what kernels of the program's own operations do", async () => {
    const a = upload(backend, new Float32Array([1, -2, 3, 4]));
    const c = backend.alloc(16);
    backend.gemm({ m: 2, n: 2, k: 2, a, b: a, c });
    assert.deepEqual([...(await download(backend, c, Float32Array, 4))], [-5, -10, 15, 10]);
    backend.run("unary", { kind: "relu", n: 4, input: a, output: c });
    assert.deepEqual([...(await download(backend, c, Float32Array, 4))], [1, 0, 3, 4]);
    backend.run(twice.operation, { input: a, output: c });
    assert.deepEqual([...(await download(backend, c, Float32Array, 1))], [2]);
  });

  it("supports these and nothing else", () => {
    for (const name of operationNames) {
      assert.equal(backend.supports(name), chosen.includes(name), name);
      assert.equal(backend.supports(operations[name]), chosen.includes(name), name);
    }
    assert.isTrue(backend.supports(twice.operation));
    assert.isTrue(backend.supports("gemm", { dtype: "f16", bias: true }));
    assert.isFalse(backend.supports("gemm", { dtype: "u8" }));
  });

  it("says of all others how a program comes by them, whatever the arguments and however they are called", () => {
    for (const name of absent) {
      for (const call of [
        () => backend[name]({} as never),
        () => backend.run(name, undefined as never),
        () => backend.run(operations[name] as Operation, {}),
        () => backend.record(() => backend[name]({} as never)),
      ]) {
        const { code, operation, message } = refusalOf(call);
        assert.deepEqual([code, operation], ["UNSUPPORTED", name]);
        const advice = `import { ${name} } from "@backplane/backend-webgpu/kernels" and add it to the option kernels`;
        assert.equal(message, `${name}: webgpu was made without it; ${advice}`);
      }
    }
  });

  it("refuses what is wrong about the kernels it has as any backend does", () => {
    assert.equal(refusalOf(() => backend.gemm({ m: 1 } as never)).code, "INVALID_ARGUMENT");
    assert.equal(refusalOf(() => backend.run("twice" as never, {} as never)).code, "INVALID_ARGUMENT");
  });

  it("tells the state of the backend first", async () => {
    const unopened = createWebGpuBackend({ kernels: [gemm] });
    assert.equal(refusalOf(() => unopened.softmax({} as never)).code, "NOT_INITIALIZED");
    await unopened.dispose();
    assert.equal(refusalOf(() => unopened.softmax({} as never)).code, "DISPOSED");
  });

  it("takes a list that has each kernel once, and no variants of others", () => {
    for (const [kernels, complaint] of [
      [[gemm, unary, gemm], "kernels has gemm twice; allowed: once"],
      [undefined, "kernels is undefined; allowed: a list of kernels"],
      [[gemm, undefined], "kernels has undefined at place 1; allowed: kernels for this backend"],
      [[{ operations: [] }], "kernels has object at place 0; allowed: kernels for this backend"],
    ] as const) {
      const { code, message } = refusalOf(() => createWebGpuBackend({ kernels: kernels as never }));
      assert.deepEqual([code, message], ["INVALID_ARGUMENT", `webgpu: ${complaint}`]);
    }
    assert.equal(refusalOf(() => createWebGpuBackend(undefined as never)).code, "INVALID_ARGUMENT");
    const variants = { gemm: "tiled_32x32x16_4x4" };
    createWebGpuBackend({ kernels: [gemm], variants });
    assert.equal(
      refusalOf(() => createWebGpuBackend({ kernels: [unary], variants })).code,
      "INVALID_ARGUMENT",
    );
  });

  it("can have every operation: the kernels that the advice names are those of the whole backend", async () => {
    const kernels = new Set<WebGpuKernel>();
    const choices: Readonly<Record<string, WebGpuKernel>> = { ...list };
    for (const name of operationNames) {
      const message = adviceOn(name);
      const [, exported] = /import \{ (\w+) \} from "@backplane\/backend-webgpu\/kernels"/.exec(message)!;
      const kernel = choices[exported!]!;
      assert.include(kernel.operations as readonly unknown[], operations[name]);
      assert.equal(kernel.entry, allKernels.entryOf(name));
      kernels.add(kernel);
    }
    const names = [...kernels].flatMap(({ operations: each }) => each.map(({ name }) => name));
    assert.sameMembers(names, [...operationNames]);
  });

  it("brings with each kernel those into whose problems its own are divided", async () => {
    const source = (path: string) => readFile(new URL(`../dist/kernels/${path}`, import.meta.url), "utf8");
    for (const [exported, kernel] of Object.entries(list)) {
      // The problems of select are maps, in the folder of these.
      const name = exported === "select" ? "map" : exported;
      const folder = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      const files = await readdir(new URL(`../dist/kernels/${folder}`, import.meta.url));
      const texts = await Promise.all(
        files.filter((file) => file.endsWith(".js")).map((file) => source(`${folder}/${file}`)),
      );
      const all = texts.join("\n");
      const named = Array.from(all.matchAll(/\b(?:run|kernelOf)\("(\w+)"/g), ([, name]) => name!);
      // As lists of problems whose operations core's types name.
      const steps = all.includes("divideSteps(") ? ["copy", "conv2d", "gemm", "binary"] : [];
      const brought = kernel.parts.flatMap(({ operations: each }) => each.map(({ name }) => name));
      // Products of other kernels are computed by this function, with what gemm has loaded and tuned.
      const products = folder !== "gemm" && /\brunGemm\(/.test(all) ? ["gemm"] : [];
      for (const name of [...named, ...steps, ...products]) assert.include(brought, name, folder);
    }
  });

  it("warms up, by plans of what it has", async () => {
    const product = (on: ComputeBackend): void => {
      const [a, b, c] = [on.alloc(256), on.alloc(256), on.alloc(256)];
      on.gemm({ m: 8, n: 8, k: 8, a, b, c });
    };
    assert.isAbove((await backend.warmup(product)).kernels, 0);
    const error = await rejection(backend.warmup((on) => on.softmax({} as never)));
    assert.equal(error.code, "UNSUPPORTED");
  });

  it("takes tuning that has entries for operations of others, and leaves these alone", async () => {
    const adapter = { vendor: "", architecture: "", device: "", description: "" };
    const entry = {
      operation: "conv2d",
      shape: {},
      variant: "any",
      seconds: 1,
      defaultVariant: "any",
      defaultSeconds: 1,
    };
    const tuning = {
      format: 1,
      version: packageVersion,
      adapter,
      tier: "baseline",
      entries: [entry],
    } as TuningData;
    createWebGpuBackend({ kernels: [gemm], tuning });
    const nonsense = { ...tuning, entries: [{ ...entry, operation: "gemm" } as TuningEntry] };
    assert.equal(
      refusalOf(() => createWebGpuBackend({ kernels: [gemm], tuning: nonsense })).code,
      "INVALID_ARGUMENT",
    );
    const lines: string[] = [];
    const table = new TunedTable(
      tuning,
      (line) => lines.push(line),
      new TunableShapes(new KernelSet({}, [])),
    );
    table.importData(tuning);
    assert.equal(table.size, 0);
  });

  it("loads kernels for matrix units where a device has some, and only there", () => {
    // In a process of its own: this one has all kernels.
    const program = `
      import { chosenKernels } from "#src/kernels/chosen.js";
      import { conv2d } from "#src/kernels/list.js";
      import { splitting } from "#src/kernels/conv2d/index.js";
      import { matrixUnits } from "#src/kernels/units.js";
      const { set } = chosenKernels([conv2d]);
      const none = { subgroupMatrices: [] };
      const some = { subgroupMatrices: ["16x16x16"] };
      for (const features of [none, some, { ...some, splitsProducts: true }]) {
        await set.load(features);
        console.log([matrixUnits, splitting].map((one) => Object.keys(one.get() ?? {}).join(" ")).join("; "));
      }`;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
      cwd: new URL("..", import.meta.url),
      encoding: "utf8",
    });
    assert.equal(stderr, "");
    const units =
      "ROUGH_KEYS attendedValues attentionMatrixProgram enqueueSplit enqueueSplitAttention inUnits matrixProgram prepareMask preparesMask";
    assert.deepEqual(stdout.split("\n"), ["; ", `${units}; `, `${units}; enqueueSplit`, ""]);
  });
});
