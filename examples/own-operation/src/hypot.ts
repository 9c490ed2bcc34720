/**
 * An operation that core has never heard of, in one file: output[i] = sqrt(a[i]^2 + b[i]^2), without overflow on
 * the way; its kernels for WebGPU and for the CPU, and its law.
 */
import {
  address,
  type CpuMemory,
  defineKernel,
  f32x4,
  i32,
  type OwnCpuKernel,
  type Value,
  v128,
} from "@backplane/backend-cpu/kernel";
import type { OwnWebGpuKernel } from "@backplane/backend-webgpu";
import type { Law } from "@backplane/conformance";
import {
  type ArgumentsOf,
  defineOperation,
  download,
  type Operation,
  type Region,
  upload,
} from "@backplane/core";
import fc from "fast-check";

const table = {
  /** Elements. */
  n: { role: "extent" },
  a: { role: "reads", shape: "n" },
  b: { role: "reads", shape: "n" },
  /** Disjoint from a and b. */
  output: { role: "writes", shape: "n" },
  dtype: { role: "elementType", types: ["f32"], default: "f32" },
} as const;

export type HypotArguments = ArgumentsOf<typeof table>;

/** The input of kernels: n is at least 1. */
export interface HypotProblem<Memory> {
  readonly n: number;
  readonly a: Region<Memory>;
  readonly b: Region<Memory>;
  readonly output: Region<Memory>;
}

export const hypot: Operation<HypotArguments, HypotProblem<unknown>> = defineOperation({
  name: "hypot",
  arguments: table,
  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const n = read.extent("n", args.n);
    const a = read.region(binder, "a", args.a, n, dtype);
    const b = read.region(binder, "b", args.b, n, dtype);
    const output = read.region(binder, "output", args.output, n, dtype);
    for (const [argument, region] of Object.entries({ a, b }))
      read.disjoint({ argument: "output", region: output }, { argument, region });
    return n === 0 ? undefined : { n, a, b, output };
  },
  flops: ({ n }) => 4 * n,
});

const groupSize = 64;

export const hypotOnWebGpu: OwnWebGpuKernel<HypotProblem<unknown>> = {
  operation: hypot,
  supports: [{ dtype: ["f32"] }],
  operands: { a: "f32", b: "f32", output: "f32" },
  parameters: { n: "u32" },
  workgroups: ({ n }) => Math.ceil(n / groupSize),
  wgsl: `
@compute @workgroup_size(${groupSize})
fn main(@builtin(global_invocation_id) place: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = place.y * groups.x * ${groupSize}u + place.x;
  if (i >= parameters.n) { return; }
  let x = abs(a[parameters.a_offset + i]);
  let y = abs(b[parameters.b_offset + i]);
  let larger = max(x, y);
  // One division keeps the squares small; where the larger is 0 there is nothing to divide.
  let ratio = select(min(x, y) / larger, 0.0, larger == 0.0);
  output[parameters.output_offset + i] = larger * sqrt(1.0 + ratio * ratio);
}`,
};

const chunkElements = 1 << 14;

const cpuKernel = defineKernel({
  name: "hypot_f32",
  parameters: { a: "i32", b: "i32", output: "i32", n: "i32" },
  emit(f, { parameters: { a, b, output, n }, chunk }) {
    const i = f.let(i32.mul(chunk, chunkElements));
    const end = f.let(i32.minU(i32.add(i, chunkElements), n));
    const vectorEnd = f.let(i32.and(end, -4));
    const ones = f.let(f32x4.const(1));
    const hypotenuse = (at: Value<"i32">) => {
      const x = f.let(f32x4.abs(v128.load(i32.add(a, at))));
      const y = f.let(f32x4.abs(v128.load(i32.add(b, at))));
      const larger = f.let(f32x4.max(x, y));
      const quotient = f.let(f32x4.div(f32x4.min(x, y), larger));
      // 0 / 0 is no number: those lanes are cleared.
      const ratio = f.let(v128.and(quotient, f32x4.eq(quotient, quotient)));
      return f32x4.mul(larger, f32x4.sqrt(f32x4.add(ones, f32x4.mul(ratio, ratio))));
    };
    const place = (): Value<"i32"> => f.let(i32.shl(i, 2));
    const four = (at = place()) => f.store(i32.add(output, at), hypotenuse(at));
    f.forLocal(i, vectorEnd, () => four(), { step: 4 });
    // Reading past the end is allowed, writing there is not.
    const one = (at = place()) => f.store(i32.add(output, at), f32x4.extractLane(0, hypotenuse(at)));
    f.forLocal(i, end, () => one());
  },
});

export const hypotOnCpu: OwnCpuKernel<HypotProblem<CpuMemory>> = {
  operation: hypot,
  supports: [{ dtype: ["f32"] }],
  kernels: [cpuKernel],
  plan({ n, ...held }) {
    const [a, b, output] = [address(held.a), address(held.b), address(held.output)];
    return [cpuKernel.launch({ a, b, output, n }, Math.ceil(n / chunkElements))];
  },
};

/** Against Math.hypot in f64, to a few units in the last place. */
export const hypotLaw: Law = {
  topic: "hypot",
  name: "stays within 4 units of the hypotenuse",
  run: ({ backend, forAll }) => {
    const side = fc.float({ noNaN: true, noDefaultInfinity: true, min: -(2 ** 120), max: 2 ** 120 });
    const sides = fc.array(fc.tuple(side, side), { minLength: 1, maxLength: 70 });
    return forAll(sides, async (pairs) => {
      const n = pairs.length;
      const put = (side: 0 | 1) => upload(backend, new Float32Array(pairs.map((pair) => pair[side])));
      const [a, b] = [put(0), put(1)];
      const output = backend.alloc(4 * n);
      backend.run(hypot, { n, a, b, output });
      const got = await download(backend, output, Float32Array, n);
      for (const handle of [a, b, output]) backend.free(handle);
      for (const [i, [x, y]] of pairs.entries()) {
        const expected = Math.hypot(x, y);
        // A subnormal result may be flushed to zero.
        if (!(Math.abs(got[i]! - expected) <= 4 * 2 ** -23 * expected + 2 ** -125))
          throw new Error(`hypot(${x}, ${y}) is ${got[i]}, not ${expected}`);
      }
    });
  },
};
