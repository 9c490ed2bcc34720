import { createWebGpuBackend, type WebGpuOptions } from "@backplane/backend-webgpu";
import {
  type BinaryArguments,
  type ComputeBackend,
  type DeviceHandle,
  dtypeBytes,
  type FloatType,
  floatTypes,
} from "@backplane/core";
import { assert } from "chai";
import { IMMEDIATE_FEATURE } from "#src/program/program.js";
import { encode, random } from "./support.js";

/** Calls of every operation, with the variants that the shapes lead to; each writes to `out`. */
const calls: Readonly<Record<string, Call>> = {
  gemm: (backend, at, c, dtype) =>
    backend.gemm({ m: 37, n: 41, k: 29, alpha: 0.5, beta: 2, a: at(0), b: at(1), c, dtype }),
  "gemm with a thin operand": (backend, at, c, dtype) =>
    backend.gemm({ m: 2, n: 70, k: 50, a: at(0), b: at(1), c, dtype }),
  batchedGemm: (backend, at, c, dtype) =>
    backend.batchedGemm({ batch: 3, m: 9, n: 10, k: 11, a: at(0), b: at(1), c, dtype }),
  conv2d: (backend, at, output, dtype) =>
    backend.conv2d({
      ...{ inputShape: [2, 3, 13, 12], filterShape: [10, 3, 3, 3], padding: [1, 1, 1, 1] },
      ...{ input: at(0), filter: at(1), bias: at(2), output, dtype },
    }),
  attention: (backend, at, out, dtype) =>
    backend.attention({
      ...{ batch: 2, heads: 2, queryLength: 7, keyLength: 19, headSize: 20, causal: true },
      ...{ q: at(0), k: at(1), v: at(2), out, dtype },
    }),
  reduce: (backend, at, output, dtype) =>
    backend.reduce({ kind: "mean", shape: [5, 33, 7], axes: [0, 2], input: at(0), output, dtype }),
  unary: (backend, at, output, dtype) => backend.unary({ kind: "exp", n: 333, input: at(0), output, dtype }),
  binary: (backend, at, output, dtype) =>
    backend.binary({ kind: "sub", n: 333, a: at(0), b: { scalar: 0.75 }, output, dtype }),
  "binary with broadcasting": (backend, at, output, dtype) => {
    const shapes: Pick<BinaryArguments, "shapeA" | "shapeB"> = { shapeA: [7, 1, 9], shapeB: [5, 1] };
    backend.binary({ kind: "mul", ...shapes, a: at(0), b: at(1), output, dtype });
  },
  "fill, and copies at odd places": (backend, _, out, dtype) => {
    const { handle, byteOffset } = out as { handle: DeviceHandle; byteOffset: number };
    backend.fill(out, 3, 40, dtype);
    backend.copyDtoD({ handle, byteOffset: byteOffset + 501 }, out, 37);
    backend.copyHtoD({ handle, byteOffset: byteOffset + 703 }, Uint8Array.of(1, 2, 3, 4, 5, 6));
  },
};

/** Those of operations whose kernels are large. */
export function callsLargeKernels(name: string): boolean {
  return /^(gemm|batchedGemm|conv2d|attention)\b/.test(name);
}

type Call = (backend: ComputeBackend, at: (slot: number) => Operand, out: Operand, dtype: FloatType) => void;

type Operand = DeviceHandle | { readonly handle: DeviceHandle; readonly byteOffset: number };

const ELEMENTS = 4096;

/** One test for each of the chosen calls and each element type. */
export function describeParameters(isChosen: (name: string) => boolean): void {
  describe("webgpu parameters", () => {
    const options: readonly WebGpuOptions[] = [{}, { disableFeatures: [IMMEDIATE_FEATURE] }];
    let backends: ComputeBackend[];

    before(async () => {
      // Without the toggle SwiftShader takes long to compile; see `products.ts`.
      const dawn = { disable: ["use_vulkan_zero_initialize_workgroup_memory_extension"] };
      backends = options.map((option) => createWebGpuBackend({ ...option, dawn } as WebGpuOptions));
      await Promise.all(backends.map((backend) => backend.init()));
    });

    after(async () => {
      await Promise.all(backends.map((backend) => backend.dispose()));
    });

    /** The bytes that the call leaves behind. */
    async function result(backend: ComputeBackend, call: Call, dtype: FloatType): Promise<Uint8Array> {
      const bytes = ELEMENTS * dtypeBytes[dtype];
      const next = random(5);
      const handles = Array.from({ length: 4 }, () => backend.alloc(bytes));
      for (const handle of handles.slice(1))
        backend.copyHtoD(
          handle,
          encode(
            Float32Array.from({ length: ELEMENTS }, () => 2 * next() - 1),
            dtype,
          ),
        );
      call(backend, (slot) => handles[slot + 1]!, { handle: handles[0]!, byteOffset: 16 }, dtype);
      const left = new Uint8Array(bytes);
      await backend.copyDtoH(left, handles[0]!);
      for (const handle of handles) backend.free(handle);
      return left;
    }

    // The tests of each operation hold all variants to the formula; here it is the way of the parameters.
    for (const dtype of floatTypes)
      for (const [name, call] of Object.entries(calls).filter(([name]) => isChosen(name)))
        it(`reach ${name} as immediates and in a uniform block, in ${dtype}`, async () => {
          const [expected, uniform] = await Promise.all(
            backends.map((backend) => result(backend, call, dtype)),
          );
          assert.isTrue(expected!.some((byte) => byte !== 0));
          assert.deepEqual(uniform, expected);
        });
  });
}
