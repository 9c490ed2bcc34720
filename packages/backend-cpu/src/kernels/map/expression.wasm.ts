import { type MapStep, type MapType, operandsOfStep } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32x4, type Local, type Value, v128 } from "../../wasm/index.js";
import { binaryFunctions } from "../binary/index.js";
import { unaryFunctions } from "../unary/index.js";

type Vector = Value<"v128">;

/** What an expression has besides its steps, as vectors that stay the same in the innermost loop. */
export interface ExpressionContext {
  readonly scratch: Local<"i32">;
  readonly parameters: readonly Vector[];
  /** The place along an axis; undefined: it is one of the values that `compute` gets. */
  readonly along: (axis: number) => Vector | undefined;
}

/**
 * Emits the constants of an expression, and what depends on nothing else, before the loop. Returns a function for use
 * inside of it: from the values of the inputs, and of the place along the innermost axis, to those of the results.
 */
export function expression(
  f: FunctionBuilder,
  steps: readonly MapStep[],
  results: readonly number[],
  { scratch, parameters, along }: ExpressionContext,
): (inputs: readonly Vector[], place: Vector | undefined) => readonly Vector[] {
  const zero = f.let(i32x4.const(0));
  const emitted = new Map<string, (...operands: readonly Vector[]) => Vector>();
  /** Constants of a function are emitted once for all steps that call it. */
  const functionOf = (name: string, emit: () => (...operands: readonly Vector[]) => Vector) => {
    const known = emitted.get(name) ?? emit();
    emitted.set(name, known);
    return known;
  };
  const invariant: (Vector | undefined)[] = [];
  /** What each step does with the values of the steps before it. */
  const actions = steps.map((step): ((values: readonly Vector[]) => Vector) => {
    switch (step.step) {
      case "unary": {
        const form = unaryFunctions[step.kind][step.of]!;
        const compute = functionOf(`${step.kind} ${step.of}`, () => {
          const one = form.emit(f, scratch);
          return (x) => one(x!);
        });
        return (values) => compute(values[step.x]!);
      }
      case "binary": {
        const form = binaryFunctions[step.kind][step.of]!;
        const compute = functionOf(`${step.kind} ${step.of} 2`, () => {
          const one = form.emit(f);
          return (a, b) => one(a!, b!);
        });
        return (values) => compute(values[step.a]!, values[step.b]!);
      }
      case "select":
        return (values) =>
          f.choose(values[step.b]!, values[step.a]!, i32x4.eq(values[step.condition]!, zero));
      case "convert":
        return (values) => conversions[step.from][step.type](values[step.x]!);
      default:
        return () => {
          throw new Error(`${step.step} is a value of its own`);
        };
    }
  });
  for (const [i, step] of steps.entries()) {
    if (step.step === "parameter") invariant.push(parameters[step.parameter]);
    else if (step.step === "constant")
      invariant.push(f.let(step.type === "f32" ? f32x4.const(step.value) : i32x4.const(step.value | 0)));
    else {
      const operands = operandsOfStep(step);
      const isKnown = operands.length > 0 && operands.every((place) => invariant[place] !== undefined);
      invariant.push(isKnown ? f.let(actions[i]!(invariant as readonly Vector[])) : undefined);
    }
  }

  return (inputs, place) => {
    const values: Vector[] = [];
    for (const [i, step] of steps.entries()) {
      const known = invariant[i];
      if (known !== undefined) values.push(known);
      else if (step.step === "input") values.push(inputs[step.input]!);
      else if (step.step === "index") values.push(along(step.axis) ?? place!);
      else values.push(f.let(actions[i]!(values)));
    }
    return results.map((result) => values[result]!);
  };
}

const same = (x: Vector): Vector => x;
const lowByte = (x: Vector): Vector => v128.and(x, i32x4.const(255));
const saturatedByte = (x: Vector): Vector => i32x4.minU(i32x4.truncSatF32x4U(x), i32x4.const(255));

/** As `copy` converts. */
const conversions: Readonly<Record<MapType, Readonly<Record<MapType, (x: Vector) => Vector>>>> = {
  f32: { f32: same, i32: i32x4.truncSatF32x4S, u32: i32x4.truncSatF32x4U, u8: saturatedByte },
  i32: { f32: f32x4.convertI32x4S, i32: same, u32: same, u8: lowByte },
  u32: { f32: f32x4.convertI32x4U, i32: same, u32: same, u8: lowByte },
  u8: { f32: f32x4.convertI32x4U, i32: same, u32: same, u8: same },
};
