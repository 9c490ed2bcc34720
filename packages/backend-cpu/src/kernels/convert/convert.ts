import type { FloatType } from "@backplane/core";
import { i32 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { type AnyKernel, defineKernel, type Kernel, type Launch } from "../kernel.js";
import { mapVectors } from "../vector/index.js";

const chunkElements = 1 << 14;

const convertTypes = { input: "i32", output: "i32", count: "i32" } as const;

/** output (f32) = input (f16), `count` contiguous elements; exact. */
export const widen: Kernel<typeof convertTypes> = converting("widen", "f16", "f32");

/** output (f16) = input (f32), `count` contiguous elements; to nearest, ties to even. */
export const narrow: Kernel<typeof convertTypes> = converting("narrow", "f32", "f16");

function converting(name: string, from: FloatType, to: FloatType): Kernel<typeof convertTypes> {
  return defineKernel({
    name,
    parameters: convertTypes,
    emit(f, { parameters, chunk }) {
      const source = elementsOf(f, from);
      const target = elementsOf(f, to);
      const begin = f.let(i32.mul(chunk, chunkElements));
      const input = f.let(i32.add(parameters.input, i32.shl(begin, source.shift)));
      const output = f.let(i32.add(parameters.output, i32.shl(begin, target.shift)));
      mapVectors(f, {
        count: i32.minU(i32.sub(parameters.count, begin), chunkElements),
        inputs: [{ at: input, elements: source }],
        output: { at: output, elements: target },
        compute: (values) => values!,
        unroll: 2,
      });
    },
  });
}

/**
 * By element type: converts `count` > 0 elements at the address `input` to f32 at `output`. Undefined: the
 * elements are f32 already.
 */
export const widening: Readonly<
  Record<FloatType, ((input: number, output: number, count: number) => Launch) | undefined>
> = { f32: undefined, f16: planWiden };

/** The kernels of `widening`. */
export const wideningKernels: readonly AnyKernel[] = [widen];

/** Widens `count` > 0 halves at the address `input` to f32 at `output`. */
export function planWiden(input: number, output: number, count: number): Launch {
  return widen.launch({ input, output, count }, Math.ceil(count / chunkElements));
}

/** Rounds `count` > 0 f32 at the address `input` to halves at `output`. */
export function planNarrow(input: number, output: number, count: number): Launch {
  return narrow.launch({ input, output, count }, Math.ceil(count / chunkElements));
}
