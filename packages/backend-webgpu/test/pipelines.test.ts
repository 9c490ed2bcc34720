import {
  type BackendError,
  type Binder,
  type DeviceHandle,
  type DeviceSlice,
  dtypeBytes,
  Fill,
  type Kernel,
  type OperationArguments,
  type OperationName,
  operationNames,
  operations,
} from "@backplane/core";
import { assert } from "chai";
import { defaultLimits } from "#src/device/tiers.js";
import { allKernels } from "#src/kernels/all.js";
import { splitAlongProgram } from "#src/kernels/gemm/split/pass.wgsl.js";
import { boundKernels } from "#src/kernels/index.js";
import { halfFunctions, packQuad, roundedHalfQuad, withNativePacking } from "#src/program/halves.wgsl.js";
import { IMMEDIATE_FEATURE, input, output, parameterSpace, program, sourceIn } from "#src/program/program.js";
import type { OperationContext } from "#src/runtime/context.js";
import { PipelineCache } from "#src/runtime/pipelines.js";
import { FakeDevice, fakeMemory } from "./fake-device.js";
import { findDawn, random } from "./support.js";

const flat = program({
  name: "flat",
  enable: ["f16"],
  bindings: { source: input("f32"), data: output("f32") },
  parameters: { n: "u32", scale: "f32" },
  body: "fn main() {}",
});

function caching(immediateBytes = 64): { readonly fake: FakeDevice; readonly cache: PipelineCache } {
  const fake = new FakeDevice();
  const parameterBuffer = {} as GPUBuffer;
  const options = { parameterBuffer, immediateBytes, packsExactly: false, windowBytes: 1 << 27 };
  const cache = new PipelineCache(fake.device, options);
  return { fake, cache };
}

describe("webgpu programs", () => {
  it("have their parameters in immediates where those hold them", () => {
    const words = (count: number, type: "u32" | { rows: number } = "u32") =>
      program({
        name: "words",
        bindings: { data: output("f32") },
        parameters: Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, type])),
        body: "fn main() {}",
      });
    assert.equal(parameterSpace(words(15), 64), "immediate");
    assert.equal(parameterSpace(words(16), 64), "uniform");
    assert.equal(parameterSpace(words(15), 0), "uniform");
    assert.equal(parameterSpace(words(1, { rows: 1 }), 64), "uniform");
  });

  it("differ between the spaces in one declaration", () => {
    assert.equal(sourceIn(flat, "uniform", false), flat.source);
    const lines = sourceIn(flat, "immediate", false).split("\n");
    assert.deepEqual(lines.slice(0, 2), [`requires ${IMMEDIATE_FEATURE};`, "enable f16;"]);
    assert.include(lines, "var<immediate> parameters: Parameters;");
    assert.notInclude(lines.join("\n"), "uniform");
  });

  it("pack halves by integer arithmetic unless the device does so exactly", () => {
    const halves = program({
      name: "halves",
      bindings: { data: output("half") },
      parameters: {},
      body: `${halfFunctions}${packQuad}\nfn main() {}`,
    });
    for (const space of ["uniform", "immediate"] as const) {
      assert.include(sourceIn(halves, space, false), "significand");
      const native = sourceIn(halves, space, true);
      assert.include(native, "return pack2x16float(vec2f(low, high));");
      for (const integer of ["significand", "magnitude", "rounded"]) assert.notInclude(native, integer);
    }
    assert.equal(sourceIn(flat, "uniform", true), flat.source);
  });
});

describe("webgpu pipelines", () => {
  it("are made once for each text, whoever has it", () => {
    const { fake, cache } = caching();
    const same = { ...flat, name: "another" };
    assert.strictEqual(cache.get(flat), cache.get(flat));
    assert.strictEqual(cache.get(same).pipeline, cache.get(flat).pipeline);
    assert.strictEqual(cache.get(same).program, same);
    assert.equal(cache.size, 1);
    assert.equal(fake.count("pipeline"), 1);
  });

  it("find a bind group again, by layout, memory and place", () => {
    const { fake, cache } = caching();
    const { layout } = cache.get(flat);
    const other = cache.get(
      program({ name: "other", bindings: { data: output("f32") }, parameters: {}, body: "fn main() {}" }),
    ).layout;
    const [a, b, c] = [1, 2, 3].map((id) => fakeMemory(2 ** 33, id)) as [
      ReturnType<typeof fakeMemory>,
      ReturnType<typeof fakeMemory>,
      ReturnType<typeof fakeMemory>,
    ];
    const first = cache.bindGroup(layout, [a, b], [0, 0], 2);
    // What lies beyond the count is left over from another dispatch.
    assert.strictEqual(cache.bindGroup(layout, [a, b, c], [0, 0, 256], 2), first);
    const others = [
      cache.bindGroup(layout, [b, a], [0, 0], 2),
      cache.bindGroup(layout, [a, c], [0, 0], 2),
      cache.bindGroup(layout, [a, b], [0, 256], 2),
      // Memory 3 from 0 and memory 2 from 256 have one key; so have 1 from 768 and 2 from 0.
      cache.bindGroup(layout, [a, b], [768, 0], 2),
      // Keys hold no more than 32 bits of a place.
      cache.bindGroup(layout, [a, b], [0, 2 ** 32], 2),
      cache.bindGroup(layout, [b, b], [0, 0], 2),
      cache.bindGroup(other, [a], [0], 1),
    ];
    assert.lengthOf(new Set([first, ...others]), 8);
    assert.equal(fake.count("group"), 8);
    const bindings = (first as unknown as GPUBindGroupDescriptor).entries as GPUBindGroupEntry[];
    assert.deepEqual(
      bindings.map(({ binding, resource }) => ({ binding, ...resource })) as unknown[],
      [a, b].map(({ buffer }, binding) => ({ binding, buffer, offset: 0, size: 1 << 27 })),
    );
  });

  it("let bind groups go with a buffer that they bind, and only those", () => {
    const { fake, cache } = caching();
    const { layout } = cache.get(flat);
    const [a, b, c] = [fakeMemory(64, 1), fakeMemory(64, 2), fakeMemory(64, 3)] as const;
    const bind = (x: typeof a, y: typeof a) => cache.bindGroup(layout, [x, y], [0, 0], 2);
    const kept = bind(b, c);
    bind(a, b);
    bind(a, a);
    cache.forget(a);
    assert.equal(a.bindGroups.size, 0);
    assert.equal(b.bindGroups.size, 1);
    assert.strictEqual(bind(b, c), kept);
    fake.taken();
    bind(a, b);
    assert.equal(fake.count("group"), 1);
  });

  it("keep a bounded number of bind groups", () => {
    const { fake, cache } = caching();
    const { layout } = cache.get(flat);
    const memories = Array.from({ length: 100 }, (_, id) => fakeMemory(64, id + 1));
    for (const a of memories) for (const b of memories) cache.bindGroup(layout, [a, b], [0, 0], 2);
    assert.equal(fake.count("group"), 10_000);
    const kept = new Set(memories.flatMap(({ bindGroups }) => [...bindGroups]));
    assert.isAtMost(kept.size, 4096);
  });

  it("refuse more parameters than a block holds, by name", () => {
    const huge = program({
      name: "huge_program",
      bindings: { data: output("f32") },
      parameters: { rows: { rows: 64 } },
      body: "fn main() {}",
    });
    assert.throws(() => caching().cache.get(huge), /huge_program: 1040 bytes of parameters/);
  });
});

/** The shapes of a convolution. */
function convolution(next: (limit: number) => number) {
  const groups = 1 << next(3);
  const [inChannels, outChannels] = [1 + next(12), 1 + next(40)];
  return {
    inputShape: [1 + next(3), groups * inChannels, 11 + next(20), 11 + next(20)],
    filterShape: [groups * outChannels, inChannels, 1 + 2 * next(3), 1 + next(5)],
    groups,
  } as const;
}

/** Arguments of operations, with sizes and places that `next` chooses. */
const argumentsOf: {
  readonly [Name in OperationName]: (next: (limit: number) => number) => OperationArguments[Name];
} = {
  gemm: (next) => ({
    ...{ m: 1 + next(300), n: 1 + next(300), k: 1 + next(300), a: slice(1, next), b: slice(2, next) },
    ...{ c: slice(3, next), transA: next(2) === 1, transB: next(2) === 1, beta: next(2) },
  }),
  batchedGemm: (next) => ({
    ...{ m: 1 + next(80), n: 1 + next(80), k: 1 + next(80), a: slice(1, next), b: slice(2, next) },
    ...{ c: slice(3, next), batch: 1 + next(5) },
  }),
  conv2d: (next) => ({
    ...convolution(next),
    ...{ input: slice(1, next), filter: slice(2, next), output: slice(3, next) },
  }),
  conv2dInputGradient: (next) => ({
    ...{ ...convolution(next), accumulate: next(2) === 1 },
    ...{ outputGradient: slice(1, next), filter: slice(2, next), inputGradient: slice(3, next) },
  }),
  conv2dFilterGradient: (next) => ({
    ...{ ...convolution(next), accumulate: next(2) === 1 },
    ...{ outputGradient: slice(1, next), input: slice(2, next), filterGradient: slice(3, next) },
  }),
  quantizedGemm: (next) => ({
    ...{ m: 1 + next(40), n: 1 + next(300), k: 1 + next(300), bits: next(2) === 0 ? 4 : 8 },
    ...{ a: slice(1, next), b: slice(2, next), scales: slice(3, next), c: slice(4, next) },
  }),
  quantize: (next) => ({
    ...{ n: 1 + next(300), k: 1 + next(300), bits: next(2) === 0 ? 4 : 8 },
    ...{ input: slice(1, next), b: slice(2, next), scales: slice(3, next) },
  }),
  attention: (next) => ({
    ...{ batch: 1 + next(2), heads: 1 + next(3), queryLength: 1 + next(100), keyLength: 1 + next(100) },
    ...{ headSize: 1 + next(130), q: slice(1, next), k: slice(2, next), v: slice(3, next) },
    out: slice(4, next),
    ...(next(2) === 1 ? { causal: true, mask: slice(5, next), window: 1 + next(20) } : {}),
  }),
  attentionGradient: (next) => ({
    ...{ batch: 1 + next(2), heads: 1 + next(3), queryLength: 1 + next(100), keyLength: 1 + next(100) },
    ...{ headSize: 1 + next(130), q: slice(1, next), k: slice(2, next), v: slice(3, next) },
    ...{ out: slice(4, next), logSumExp: slice(6, next), outGradient: slice(7, next) },
    ...{ qGradient: slice(8, next), kGradient: slice(9, next), vGradient: slice(10, next) },
    ...(next(2) === 1 ? { causal: true, mask: slice(5, next), window: 1 + next(20) } : {}),
  }),
  reduce: (next) => ({
    ...{ kind: "sum", shape: [1 + next(40), 1 + next(40), 1 + next(40)], axes: [next(3)] },
    ...{ input: slice(1, next), output: slice(2, next) },
  }),
  unary: (next) => ({ kind: "exp", n: 1 + next(5000), input: slice(1, next), output: slice(2, next) }),
  binary: (next) => {
    const shape = [1 + next(20), 1 + next(20), 1 + next(20)];
    const shapeB = shape.map((extent) => (next(2) === 0 ? extent : 1));
    return {
      ...{ kind: "add", shapeA: shape, shapeB },
      ...{ a: slice(1, next), b: slice(2, next), output: slice(3, next) },
    };
  },
  argReduce: (next) => ({
    ...{ kind: "argMax", shape: [1 + next(40), 1 + next(40), 1 + next(40)], axis: next(3) },
    ...{ input: slice(1, next), output: slice(2, next) },
  }),
  pool2d: (next) => {
    const kind = next(2) === 0 ? "max" : "mean";
    const [rows, columns] = [1 + next(3), 1 + next(3)];
    return {
      ...{
        kind,
        inputShape: [1 + next(3), 3 + next(9), 3 + next(30), 3 + next(30)],
        kernel: [rows, columns],
      },
      ...{ stride: [1 + next(3), 1 + next(3)], layout: next(2) === 0 ? "NCHW" : "NHWC" },
      ...{ input: slice(1, next), output: slice(2, next) },
    };
  },
  resize2d: (next) => ({
    ...{ kind: next(2) === 0 ? "nearest" : "bilinear", layout: next(2) === 0 ? "NCHW" : "NHWC" },
    inputShape: [1 + next(3), 1 + next(9), 1 + next(30), 1 + next(30)],
    ...{ outputHeight: 1 + next(40), outputWidth: 1 + next(40) },
    ...{ input: slice(1, next), output: slice(2, next) },
  }),
  pool2dGradient: (next) => {
    const kind = next(2) === 0 ? "max" : "mean";
    const [rows, columns] = [1 + next(3), 1 + next(3)];
    return {
      ...{
        kind,
        inputShape: [1 + next(3), 3 + next(9), 3 + next(30), 3 + next(30)],
        kernel: [rows, columns],
      },
      ...{ stride: [1 + next(3), 1 + next(3)], layout: next(2) === 0 ? "NCHW" : "NHWC" },
      ...(kind === "max" ? { indices: slice(3, next) } : {}),
      ...{ outputGradient: slice(1, next), inputGradient: slice(2, next) },
    };
  },
  resize2dGradient: (next) => ({
    ...{ kind: next(2) === 0 ? "nearest" : "bilinear", layout: next(2) === 0 ? "NCHW" : "NHWC" },
    inputShape: [1 + next(3), 1 + next(9), 1 + next(30), 1 + next(30)],
    ...{ outputHeight: 1 + next(40), outputWidth: 1 + next(40) },
    ...{ outputGradient: slice(1, next), inputGradient: slice(2, next) },
  }),
  scan: (next) => ({
    ...{ kind: "sum", shape: [1 + next(40), 1 + next(40), 1 + next(40)], axis: next(3) },
    ...{ exclusive: next(2) === 1, reverse: next(2) === 1, input: slice(1, next), output: slice(2, next) },
  }),
  sort: (next) => ({
    ...{ shape: [1 + next(40), 1 + next(40), 1 + next(40)], axis: next(3), descending: next(2) === 1 },
    ...{ input: slice(1, next), values: slice(2, next), indices: slice(3, next) },
  }),
  softmax: (next) => ({
    ...{ kind: "softmax", shape: [1 + next(40), 1 + next(40), 1 + next(40)], axis: next(3) },
    ...{ input: slice(1, next), output: slice(2, next) },
  }),
  softmaxGradient: (next) => ({
    ...{ kind: "softmax", shape: [1 + next(40), 1 + next(40), 1 + next(40)], axis: next(3) },
    ...{ output: slice(1, next), outputGradient: slice(2, next), inputGradient: slice(3, next) },
  }),
  random: (next) => ({
    ...{ kind: "uniform", count: 1 + next(5000), seed: next(100), offset: next(100) },
    output: slice(1, next),
  }),
  normalize: (next) => ({
    ...{ kind: "layer", rows: 1 + next(40), size: 1 + next(300) },
    ...{ input: slice(1, next), weight: slice(2, next), output: slice(3, next) },
  }),
  normalizeGradient: (next) => ({
    ...{ kind: "layer", rows: 1 + next(40), size: 1 + next(300) },
    ...{ input: slice(1, next), weight: slice(2, next), outputGradient: slice(3, next) },
    ...{ inputGradient: slice(4, next), weightGradient: slice(5, next) },
  }),
  copy: (next) => {
    const [rows, columns] = [1 + next(100), 1 + next(100)];
    const inputStrides = next(2) === 0 ? [1, rows] : [columns + next(3), 1];
    return { shape: [rows, columns], inputStrides, input: slice(1, next), output: slice(2, next) };
  },
  gather: (next) => {
    const [outer, inner] = [1 + next(20), 1 + next(40)];
    return {
      ...{ shape: [outer, 1 + next(40), inner], axis: 1 },
      indexShape: [next(2) === 0 ? outer : 1, 1 + next(40), next(2) === 0 ? inner : 1],
      ...{ input: slice(1, next), indices: slice(2, next), output: slice(3, next) },
    };
  },
  map: (next) => {
    const [rows, columns] = [1 + next(100), 1 + next(100)];
    const unary = (["exp", "neg", "sqrt"] as const)[next(3)]!;
    return {
      ...{ shape: [rows, columns], inputShapes: [undefined, next(2) === 0 ? [columns] : undefined] },
      ...{ inputs: [slice(1, next), slice(2, next)], outputs: [slice(3, next)], parameters: [next(9)] },
      nodes: [
        ...[{ input: 0 }, { input: 1 }, { parameter: 0 }, { unary, x: 1 }],
        ...([
          { binary: "mul", a: 0, b: 3 },
          { binary: "add", a: 2, b: 4 },
        ] as const),
      ],
      results: [-1],
    };
  },
  select: (next) => {
    const [rows, columns] = [1 + next(100), 1 + next(100)];
    return {
      ...{ condition: slice(1, next), a: slice(2, next), output: slice(3, next) },
      ...(next(2) === 0 ? { b: { scalar: next(9) } } : { b: slice(4, next), shapeB: [columns] }),
      ...{ conditionShape: [rows, 1], shapeA: [rows, columns] },
    };
  },
  scatter: (next) => {
    const [outer, inner] = [1 + next(20), 1 + next(40)];
    // Few updates, and so many that they are sorted.
    const count = 1 + next(40) + next(2) * 5000;
    return {
      ...{ kind: "add", shape: [outer, 1 + next(40), inner], axis: 1 },
      indexShape: [next(2) === 0 ? outer : 1, count, next(2) === 0 ? inner : 1],
      ...{ indices: slice(1, next), updates: slice(2, next), output: slice(3, next) },
    };
  },
  rope: (next) => {
    const [kind, half] = [next(2) === 0 ? "halves" : "neighbours", 1 + next(20)] as const;
    return {
      ...{ kind, heads: 1 + next(6), rows: 1 + next(20), size: 2 * half + 4 * next(3), rotated: 2 * half },
      ...{ length: 30, input: slice(1, next), cos: slice(2, next), sin: slice(3, next) },
      output: slice(4, next),
    };
  },
};

function slice(handle: number, next: (limit: number) => number): DeviceSlice {
  return { handle: handle as DeviceHandle, byteOffset: next(2) * 4 * next(8) };
}

/** For kernels that record nothing but their programs. */
const regions: Binder<unknown> = {
  region(_, operand, elements, dtype) {
    const { handle, byteOffset } = operand as DeviceSlice;
    return { memory: fakeMemory(1 << 26, handle), byteOffset, byteLength: elements * dtypeBytes[dtype] };
  },
};

describe("webgpu packing of halves", () => {
  it("is left to devices that round as they should, but not where numbers are read back", () => {
    const text = withNativePacking(packQuad);
    assert.notInclude(text, "half_quad(values: vec4f) -> vec2u {\n  let bits");
    assert.equal(withNativePacking(roundedHalfQuad), roundedHalfQuad);
    // A compiler may take a number for what it becomes and is read as, so that its low part is 0.
    assert.include(splitAlongProgram("quads").source, roundedHalfQuad.trim());
  });
});

describe("webgpu programs of an operation", () => {
  for (const name of operationNames)
    it(`are few, whatever the sizes: ${name}`, () => {
      const { fake, cache } = caching();
      const names = new Set<string>();
      const features = {
        ...{ shaderF16: false, subgroups: false, subgroupMinSize: 32, subgroupMaxSize: 32 },
        ...{ subgroupMatrices: [], limits: defaultLimits },
      };
      const context: OperationContext = {
        features,
        dispatch(program) {
          cache.get(program);
          names.add(program.name);
        },
        scratch: (bytes) => ({ memory: fakeMemory(bytes, 5), byteOffset: 0, byteLength: bytes }),
        copy() {},
        fill() {},
        scoped: (enqueue) => enqueue(context),
      };
      const kernel = boundKernels(allKernels, {}, (_, enqueue) => enqueue(context))[name] as Kernel<unknown>;
      const uniform = random(1);
      const next = (limit: number): number => Math.floor(limit * uniform());
      const run = (count: number): number => {
        for (let i = 0; i < count; i++) {
          const args = argumentsOf[name](next) as OperationArguments[OperationName];
          const problem = operations[name].resolve(args as never, regions);
          if (problem !== undefined && !(problem instanceof Fill)) kernel.run(problem);
        }
        return cache.size;
      };
      const first = run(600);
      const both = run(600);
      // gemm has most: for each tile four transposes, three operands aligned or not, and parts of a sum.
      assert.isAtMost(first, 120);
      // Sizes that come later find what they need, but for rare combinations of properties.
      assert.isAtMost(both, 1.5 * first);
      assert.equal(names.size, both);
      assert.equal(fake.count("pipeline"), cache.size);
    });
});

describe("webgpu pipelines on a device", () => {
  const arithmetic = (name: string, operation: string) =>
    program({
      name,
      bindings: { data: output("u32") },
      parameters: { value: "u32" },
      body: `@compute @workgroup_size(1) fn main() { data[parameters.data_offset] ${operation}; }`,
    });
  const plus = arithmetic("plus", "+= parameters.value");
  const times = arithmetic("times", "*= parameters.value");
  const faulty = arithmetic("faulty_program", "= no_such_function()");

  let device: GPUDevice;
  let cache: PipelineCache;
  let compiled: string[];

  beforeEach(async () => {
    const adapter = await (await findDawn()).requestAdapter();
    device = await adapter!.requestDevice();
    compiled = [];
    const { createComputePipeline, createComputePipelineAsync } = device;
    device.createComputePipeline = (descriptor) => {
      compiled.push(`${descriptor.label} at once`);
      return createComputePipeline.call(device, descriptor);
    };
    device.createComputePipelineAsync = (descriptor) => {
      compiled.push(`${descriptor.label} meanwhile`);
      return createComputePipelineAsync.call(device, descriptor);
    };
    const parameterBuffer = device.createBuffer({ size: 2048, usage: 0x40 });
    const options = { parameterBuffer, immediateBytes: 64, packsExactly: false, windowBytes: 1 << 27 };
    cache = new PipelineCache(device, options);
  });

  afterEach(async () => {
    device.destroy();
    await device.lost;
  });

  it("are prepared without blocking, once however often that is asked for", async () => {
    const first = cache.prepare([plus, times, plus]);
    const second = cache.prepare(new Set([times]));
    assert.deepEqual(compiled, ["plus meanwhile", "times meanwhile"]);
    assert.equal(cache.size, 0);
    await Promise.all([first, second]);
    assert.equal(cache.size, 2);
    await cache.prepare([plus, times]);
    cache.get(plus);
    cache.get(times);
    assert.lengthOf(compiled, 2);
  });

  it("are compiled at once for an operation that cannot wait, and kept", async () => {
    const preparing = cache.prepare([plus, times]);
    const { pipeline } = cache.get(plus);
    assert.deepEqual(compiled, ["plus meanwhile", "times meanwhile", "plus at once"]);
    await preparing;
    for (const program of [plus, { ...plus }]) assert.strictEqual(cache.get(program).pipeline, pipeline);
    assert.equal(cache.size, 2);
  });

  it("say which program the device refuses, and prepare the others", async () => {
    const error = await cache.prepare([plus, faulty, times]).then(
      () => assert.fail("the program was accepted"),
      (reason: BackendError) => reason,
    );
    assert.equal(error.code, "DEVICE_ERROR");
    assert.match(error.message, /faulty_program.*no_such_function/s);
    assert.equal(cache.size, 2);
    // It is not taken for prepared, nor for being prepared.
    await cache.prepare([faulty]).catch(() => {});
    assert.lengthOf(
      compiled.filter((name) => name.startsWith("faulty")),
      2,
    );
  });

  it("can be under way when the device goes", async () => {
    const preparing = cache.prepare([plus, times]);
    device.destroy();
    await preparing.catch((error: BackendError) => assert.equal(error.code, "DEVICE_ERROR"));
  });
});
