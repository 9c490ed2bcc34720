import { createWebGpuBackend, type OwnWebGpuKernel, type WebGpuBackend } from "@backplane/backend-webgpu";
import { type ComputeBackend, defineOperation, type Region } from "@backplane/core";
import { assert } from "chai";
import { rejection } from "./support.js";
import { everything, openWatched, type Watched } from "./watched.js";

const table = {
  n: { role: "extent" },
  input: { role: "reads", shape: "n" },
  output: { role: "writes", shape: "n" },
  dtype: { role: "elementType", types: ["f32"], default: "f32" },
} as const;

interface DoubleProblem {
  readonly n: number;
  readonly input: Region<unknown>;
  readonly output: Region<unknown>;
}

/** output[i] = 2 input[i] */
const double = defineOperation({
  name: "double",
  arguments: table,
  resolve(args, binder, read): DoubleProblem {
    const n = read.extent("n", args.n);
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const region = (name: "input" | "output") => read.region(binder, name, args[name], n, dtype);
    return { n, input: region("input"), output: region("output") };
  },
  flops: ({ n }) => n,
});

const doubleKernel: OwnWebGpuKernel<DoubleProblem> = {
  operation: double,
  supports: [{ dtype: ["f32"] }],
  operands: { input: "f32", output: "f32" },
  parameters: { n: "u32" },
  workgroups: ({ n }) => Math.ceil(n / 64),
  wgsl: `
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) place: vec3u) {
  if (place.x >= parameters.n) { return; }
  output[parameters.output_offset + place.x] = 2.0 * input[parameters.input_offset + place.x];
}`,
};

describe("webgpu warmup", () => {
  let backend: WebGpuBackend;
  let compiled: Watched["compiled"];

  async function open(...options: Parameters<typeof openWatched>): Promise<void> {
    ({ backend, compiled } = await openWatched(...options));
  }

  afterEach(() => backend.dispose());

  it("takes recordings, with handles of the backend, and other values and operands", async () => {
    await open();
    const [a, b, other] = [backend.alloc(4096), backend.alloc(4096), backend.alloc(4096)];
    const plan = (planned: ComputeBackend): void => {
      const step = planned.record(
        (vary: (part: (values: { readonly kind: "neg" | "abs" }) => void) => void) => {
          planned.copyDtoD(b, a, 4096);
          vary(({ kind }) => planned.unary({ kind, n: 1024, input: b, output: a }));
        },
        { kind: "neg" },
      );
      step.run();
      step.run({ values: { kind: "abs" }, operands: new Map([[a, other]]) });
      step.dispose();
    };
    const { kernels } = await backend.warmup(plan);
    assert.equal(kernels, 3);
    const before = compiled.blocking.length;
    plan(backend);
    await backend.synchronize();
    assert.equal(compiled.blocking.length, before);
  });

  it("runs nothing, and uses handles of the backend without touching them", async () => {
    await open();
    const [weights, freed] = [backend.alloc(4096), backend.alloc(64)];
    backend.free(freed);
    backend.copyHtoD(weights, new Float32Array(1024).fill(3));
    const kept = Float32Array.of(5, 6);
    const errors: unknown[] = [];
    await backend.warmup(async (plan) => {
      const output = plan.alloc(4096);
      plan.gemm({ m: 16, n: 16, k: 16, a: weights, b: { handle: weights, byteOffset: 1024 }, c: output });
      plan.fill(weights, 0, 1024);
      plan.copyDtoD({ handle: weights, byteOffset: 16 }, output, 64);
      await plan.copyDtoH(kept, weights);
      for (const wrong of [
        () => plan.fill(weights, 0, 1025),
        () => plan.unary({ kind: "exp", n: 16, input: freed, output }),
        () => backend.free(output),
      ])
        try {
          wrong();
        } catch (error) {
          errors.push(error);
        }
      plan.free(weights);
      assert.equal(plan.capabilities.device.name, backend.capabilities.device.name);
      assert.isTrue(plan.supports("gemm", { dtype: "f16" }));
      assert.isBelow(plan.memory().liveBytes, 8192);
    });
    assert.deepEqual(
      errors.map((error) => (error as { code: string }).code),
      ["OUT_OF_BOUNDS", "INVALID_HANDLE", "INVALID_HANDLE"],
    );
    assert.deepEqual([...kept], [5, 6]);
    const results = new Float32Array(1024);
    await backend.copyDtoH(results, weights);
    assert.isTrue(results.every((value) => value === 3));
    compiled.blocking.length = 0;
    const c = backend.alloc(4096, { zero: false });
    backend.gemm({ m: 16, n: 16, k: 16, a: weights, b: { handle: weights, byteOffset: 1024 }, c });
    assert.deepEqual(compiled.blocking, []);
  });

  it("compiles the kernels of an operation that core does not define, in every form of a call", async () => {
    await open({ kernels: [doubleKernel] });
    const [input, kept] = [backend.alloc(256), backend.alloc(256)];
    backend.copyHtoD(input, Float32Array.of(1.5, -2));
    const report = await backend.warmup((plan) => {
      assert.isTrue(plan.supports(double, { dtype: "f32" }));
      plan.run(double, { n: 64, input, output: plan.alloc(256, { zero: false }) });
      plan.run("unary", { kind: "neg", n: 64, input, output: kept });
    });
    assert.deepEqual(report, { kernels: 2, compiledPipelines: 2 });
    assert.sameMembers(compiled.meanwhile, ["double", "unary_neg_f32_wide_contiguous"]);
    backend.run(double, { n: 2, input, output: kept });
    assert.deepEqual(compiled.blocking, []);
    const results = new Float32Array(2);
    await backend.copyDtoH(results, kept);
    assert.deepEqual([...results], [3, -4]);
  });

  it("knows that memory is cleared when it had another owner before", async () => {
    await open();
    const clearing = (b: ComputeBackend): void => {
      const memory = b.alloc(1 << 20);
      b.unary({ kind: "exp", n: 64, input: memory, output: { handle: memory, byteOffset: 4096 } });
      b.free(memory);
    };
    await backend.warmup(clearing);
    for (let i = 0; i < 3; i++) clearing(backend);
    assert.deepEqual(compiled.blocking, []);
    assert.include(compiled.meanwhile, "fill_bytes");
    await backend.synchronize();
  });

  it("leaves what is beyond its plan to the call that needs it", async () => {
    await open();
    const exp = (b: ComputeBackend, byteOffset: number): void => {
      const memory = b.alloc(4096, { zero: false });
      b.unary({ kind: "exp", n: 64, input: { handle: memory, byteOffset }, output: memory });
    };
    await backend.warmup((plan) => exp(plan, 1024));
    exp(backend, 2048);
    assert.lengthOf(compiled.blocking, 0);
    exp(backend, 1028);
    assert.lengthOf(compiled.blocking, 1);
    await backend.synchronize();
  });

  it("takes a model with more memory than any device has", async () => {
    await open();
    const report = await backend.warmup((plan) => {
      const bytes = plan.capabilities.limits.maxAllocationBytes;
      for (let i = 0; i < 1000; i++) plan.fill(plan.alloc(bytes), 1, Math.floor(bytes / 4));
    });
    assert.deepEqual(report, { kernels: 1, compiledPipelines: 1 });
  });

  it("ends with what its plan throws, and with what the device refuses", async () => {
    await open();
    const bad = await rejection(
      backend.warmup((plan) =>
        plan.gemm({ m: -1, n: 1, k: 1, a: plan.alloc(4), b: plan.alloc(4), c: plan.alloc(4) }),
      ),
    );
    assert.equal(bad.code, "INVALID_ARGUMENT");
    assert.match(bad.message, /^gemm: m is -1/);
    const empty = await rejection(backend.warmup((plan) => plan.gemm(undefined as never)));
    assert.equal(empty.code, "INVALID_ARGUMENT");
    let kept: ComputeBackend | undefined;
    await backend.warmup((plan) => {
      kept = plan;
    });
    assert.throws(() => kept!.alloc(4), /disposed/);
    const nothing = await rejection(backend.warmup({} as () => void));
    assert.match(nothing.message, /^warmup: plan is .*; allowed: a function/);
    const misspelt = await rejection(backend.warmup(() => {}, { onprogress: () => {} } as object));
    assert.match(misspelt.message, /^warmup: onprogress is unknown \(is onProgress meant\?\)/);
    const silent = await rejection(backend.warmup(() => {}, { onProgress: 3 as unknown as () => void }));
    assert.match(silent.message, /^warmup: onProgress is 3; allowed: a function/);
    const device = backend.native() as GPUDevice;
    const { createShaderModule } = device;
    device.createShaderModule = ({ label, code }) =>
      createShaderModule.call(device, {
        label: label!,
        code: label!.startsWith("fill") ? "no program" : code,
      });
    const error = await rejection(backend.warmup(everything));
    assert.equal(error.code, "DEVICE_ERROR");
    assert.match(error.message, /fill_bytes/);
    device.createShaderModule = createShaderModule;
    // The others are done; and what the module reported besides is not left for others.
    await backend.synchronize().catch(() => {});
    assert.equal((await backend.warmup(everything)).compiledPipelines, 1);
  });

  it("ends with the backend", async () => {
    await open();
    const unopened = createWebGpuBackend();
    assert.equal((await rejection(unopened.warmup(everything))).code, "NOT_INITIALIZED");
    // Nor does it wait for what a device that is gone never answers.
    const compiling = (): Promise<void> =>
      new Promise((resolve) => {
        (backend.native() as GPUDevice).createComputePipelineAsync = () => {
          resolve();
          return new Promise(() => {});
        };
      });
    const first = compiling();
    const lost = rejection(backend.warmup(everything));
    await first;
    await backend.loseDevice();
    const error = await lost;
    assert.equal(error.code, "DEVICE_LOST");
    assert.match(error.message, /^warmup: /);
    await backend.init();
    const second = compiling();
    const disposed = rejection(backend.warmup(everything));
    await second;
    await backend.dispose();
    assert.equal((await disposed).code, "DISPOSED");
    assert.match((await disposed).message, /^warmup: /);
  });
});
