import { type Activation, activations } from "@backplane/core";
import {
  type FunctionReference,
  f32x4,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { unaryFunctions } from "../unary/index.js";
import { mapVectors } from "../vector/index.js";

/** The steps after finished sums, as parameters of kernels. */
export interface EpilogueParameters {
  /** Address of the bias, in f32; 0 if there is none. */
  readonly bias: number;
  /** Bytes from column to column of the bias: 4, or 0 if all columns share one. */
  readonly biasStep: number;
  /** A value of `activationCode`. */
  readonly activation: number;
}

export const epilogueTypes = { bias: "i32", biasStep: "i32", activation: "i32" } as const;

export const noEpilogue: EpilogueParameters = { bias: 0, biasStep: 0, activation: 0 };

export type EpilogueLocals = { readonly [Name in keyof EpilogueParameters]: Local<"i32"> };

/** Returns the code of an activation in parameters; 0 for none. */
export function activationCode(activation: Activation | undefined): number {
  return activation === undefined ? 0 : activations.indexOf(activation) + 1;
}

/** Whether there is anything to do. */
export function hasEpilogue({ bias, activation }: EpilogueLocals): Value<"i32"> {
  return i32.or(bias, activation);
}

/** Applies one activation to `count` f32 at `at`, in place. */
function activationFunction(module: ModuleBuilder, kind: Activation): FunctionReference {
  return module.shared(`activate_${kind}`, (label) =>
    module.function(label, { at: "i32", count: "i32" }, (f, { at, count }) => {
      const { emit, unroll } = unaryFunctions[kind].f32!;
      // None of these kinds needs scratch.
      const compute = emit(f, at);
      const stream = { at, elements: elementsOf(f, "f32") };
      mapVectors(f, { count, inputs: [stream], output: stream, compute: (x) => compute(x!), unroll });
    }),
  );
}

/**
 * row[j] = activation(row[j] + bias[j]) for `m` rows of `n` f32, `stride` bytes from row to row, in
 * place. For parts of a result that are still in the cache.
 */
export function epilogueFunction(module: ModuleBuilder): FunctionReference {
  const applied = activations.map((kind) => activationFunction(module, kind));
  return module.shared("epilogue", (label) =>
    module.function(
      label,
      { row: "i32", stride: "i32", m: "i32", n: "i32", ...epilogueTypes },
      (f, { row, stride, m, n, bias, biasStep, activation }) => {
        const elements = elementsOf(f, "f32");
        const one = f.local("v128");
        f.forRange(0, m, () => {
          f.if(bias, () => {
            const output = { at: f.let(row), elements };
            const add = (addend: typeof output | Value<"v128">): void =>
              mapVectors(f, {
                ...{ count: n, inputs: [output, addend], output, unroll: 2 },
                compute: (sum, value) => f32x4.add(sum!, value!),
              });
            f.if(
              biasStep,
              () => add({ at: f.let(bias), elements }),
              () => {
                f.set(one, v128.load32Splat(bias));
                add(one);
              },
            );
          });
          for (const [i, apply] of applied.entries())
            f.if(i32.eq(activation, i + 1), () => f.call(apply, row, n));
          f.add(row, stride);
        });
      },
    ),
  );
}
