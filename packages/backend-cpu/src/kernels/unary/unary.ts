import {
  type DType,
  floatTypes,
  integerTypes,
  type UnaryKind,
  type UnaryProblem,
  unaryKinds,
} from "@backplane/core";
import { byComputedType, type ComputedType, formOf } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { elementsPerChunk } from "../vector/index.js";
import { unaryAccuracy, unaryFunctions, unaryKindsOf } from "./functions.js";
import { type UnaryTypes, unaryKernel } from "./unary.wasm.js";

type Type = ComputedType | "u8";

/** How a plan does one kind for one element type. */
interface Entry {
  readonly kernel: Kernel<UnaryTypes>;
  /** Roughly how long an element takes one worker. */
  readonly nanoseconds: number;
}

const conversionNanoseconds: Readonly<Record<Type, number>> = { f32: 0, f16: 0.5, i32: 0, u32: 0, u8: 0.3 };

/** Undefined: the kind does not have the type. */
function entryOf(kind: UnaryKind, dtype: Type): Entry | undefined {
  const form = unaryFunctions[kind][formOf(dtype)];
  if (form === undefined) return undefined;
  return {
    kernel: unaryKernel(kind, dtype),
    nanoseconds: (form.unroll > 1 ? 0.2 : 0.9) + conversionNanoseconds[dtype],
  };
}

const entries = Object.fromEntries(
  unaryKinds.map((kind) => [
    kind,
    { ...byComputedType((dtype) => entryOf(kind, dtype)), u8: entryOf(kind, "u8") },
  ]),
) as Record<UnaryKind, Record<Type, Entry | undefined>>;

const types: readonly (readonly DType[])[] = [floatTypes, integerTypes, ["u8"]];

export const unary: CpuOperation<UnaryProblem<CpuMemory>> = {
  supports: types.map((dtype) => ({ dtype, kind: unaryKindsOf(formOf(dtype[0] as Type)) })),
  accuracy: unaryAccuracy,
  kernels: Object.values(entries).flatMap((byType) =>
    Object.values(byType).flatMap((entry) => (entry === undefined ? [] : [entry.kernel])),
  ),

  plan({ kind, dtype, input, output, n }, { workers }) {
    // The driver is not asked for what `supports` leaves out.
    const { kernel, nanoseconds } = entries[kind][dtype]!;
    const chunkElements = elementsPerChunk(n, workers);
    const parameters = { input: address(input), output: address(output), count: n, chunkElements };
    return [kernel.launch(parameters, Math.ceil(n / chunkElements), n * nanoseconds)];
  },
};
