import type { Operand } from "../../handles.js";
import type { Region } from "../../region.js";
import { broadcastShape, mergeBroadcast } from "../map/axes.js";
import type { MapProblem } from "../map/index.js";
import { computedAs, type MapElementType, type MapNumberType, type MapStep } from "../map/nodes.js";
import { type Structure, structureOf } from "../map/structure.js";
import { defineOperation, type Operation } from "../operation.js";
import { isScalar, type Reader } from "../reader.js";
import type { ArgumentsOf, Scalar } from "../table.js";

const table = {
  /** u8: a where it is not 0, b where it is. */
  condition: { role: "reads", shape: "conditionShape, or n; u8" },
  a: { role: "reads", shape: "shapeA, or n", scalar: true },
  b: { role: "reads", shape: "shapeB, or n", scalar: true },
  /** May be exactly a or b if that operand has as many elements. */
  output: { role: "writes", shape: "outputShape, or n" },
  /** Elements of output and of each operand that is not a scalar. Replaces the shapes. */
  n: { role: "extent", otherwise: "by conditionShape, shapeA and shapeB" },
  /** Shape of the condition, which is contiguous. Replaces n. */
  conditionShape: { role: "extents", otherwise: "[n]" },
  /** Not allowed for a scalar. */
  shapeA: { role: "extents", otherwise: "[n]" },
  shapeB: { role: "extents", otherwise: "[n]" },
  /** Checked if given. */
  outputShape: { role: "extents", otherwise: "conditionShape, shapeA and shapeB, broadcast" },
  /** Of a, b and output. */
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32", "u8"], default: "f32" },
} as const;

/**
 * output[i] = a[i] where condition[i] is not 0, else b[i].
 *
 * The operands have `n` elements each, or shapes that broadcast as in `binary`. a, b or both may be scalars, which must be
 * numbers of the type. What is not selected makes no difference, a NaN included. It is the smallest case of `map`: kernels
 * get a problem of that.
 */
export interface SelectArguments extends ArgumentsOf<typeof table> {}

export type SelectType = NonNullable<SelectArguments["dtype"]>;

export const selectTypes: readonly SelectType[] = table.dtype.types;

type Shape = readonly number[];

export const select: Operation<SelectArguments, MapProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "select",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const shapes = operandShapes(read, args);
    const shape = broadcastShape(read, [
      ["conditionShape", shapes.condition],
      ["shapeA", shapes.a],
      ["shapeB", shapes.b],
    ]);
    const given = read.optionalExtents("outputShape", args.outputShape, undefined);
    read.derivedExtents("outputShape", given, shape);
    const n = read.product("outputShape", shape);

    const output = read.region(binder, "output", args.output, n, dtype);
    const conditions = read.product("conditionShape", shapes.condition);
    const condition = read.region(binder, "condition", args.condition, conditions, "u8");
    read.disjoint({ argument: "output", region: output }, { argument: "condition", region: condition });
    const inputs: { readonly dtype: MapElementType; readonly region: Region<unknown> }[] = [
      { dtype: "u8", region: condition },
    ];
    const ofInputs = [shapes.condition];
    const parameters: MapProblem<unknown>["parameters"][number][] = [];
    const branch = (argument: "a" | "b"): boolean => {
      const count = read.product(argument === "a" ? "shapeA" : "shapeB", shapes[argument]);
      const held = read.regionOrScalar(binder, argument, args[argument], count, dtype);
      if ("scalar" in held) {
        parameters.push({ type: parameterType(dtype), value: held.scalar });
        return true;
      }
      read.disjointOrSame({ argument: "output", region: output }, { argument, region: held });
      inputs.push({ dtype, region: held });
      ofInputs.push(shapes[argument]);
      return false;
    };
    const form = formOf(dtype, branch("a"), branch("b"));
    if (n === 0) return undefined;
    const axes = mergeBroadcast(shape, ofInputs, []);
    return {
      dtype,
      shape: axes.shape,
      n,
      inputs: inputs.map((input, i) => ({ ...input, strides: axes.strides[i]! })),
      outputs: [{ dtype, region: output, result: form.results[0]! }],
      parameters,
      steps: form.steps,
      key: form.key,
    };
  },

  flops: (problem) => problem.n,

  bytes: ({ inputs, outputs }) =>
    [...inputs, ...outputs].reduce((bytes, { region }) => bytes + region.byteLength, 0),
});

/** Of a scalar. Parameters cannot be bytes. */
function parameterType(dtype: MapElementType): MapNumberType {
  const type = computedAs(dtype);
  return type === "u8" ? "u32" : type;
}

const forms = new Map<string, Structure>();

/** Returns the steps, which depend on nothing but the type and on whether a and b are scalars. */
function formOf(dtype: MapElementType, scalarA: boolean, scalarB: boolean): Structure {
  const name = `${dtype}${scalarA ? 1 : 0}${scalarB ? 1 : 0}`;
  let form = forms.get(name);
  if (form !== undefined) return form;
  const type = computedAs(dtype);
  const steps: MapStep[] = [{ step: "input", type: "u8", input: 0 }];
  const types: MapElementType[] = ["u8"];
  let parameters = 0;
  const [a, b] = [scalarA, scalarB].map((isOne) => {
    if (!isOne) {
      steps.push({ step: "input", type, input: types.length });
      types.push(dtype);
    } else {
      steps.push({ step: "parameter", type: parameterType(dtype), parameter: parameters++ });
      if (type === "u8") steps.push({ step: "convert", type, from: "u32", x: steps.length - 1 });
    }
    return steps.length - 1;
  }) as [number, number];
  steps.push({ step: "select", type, condition: 0, a, b });
  form = structureOf(steps, [steps.length - 1], types, [dtype]);
  forms.set(name, form);
  return form;
}

function operandShapes(
  read: Reader<typeof table>,
  args: SelectArguments,
): { readonly condition: Shape; readonly a: Shape; readonly b: Shape } {
  const n = read.optionalExtent("n", args.n);
  const given = {
    conditionShape: read.optionalExtents("conditionShape", args.conditionShape, undefined),
    shapeA: read.optionalExtents("shapeA", args.shapeA, undefined),
    shapeB: read.optionalExtents("shapeB", args.shapeB, undefined),
  };
  const shapeOf = (argument: keyof typeof given, operand: Operand | Scalar): Shape => {
    const shape = given[argument];
    if (n !== undefined && shape !== undefined)
      read.fail("n", "is given together with shapes; allowed: either n, or a shape for each operand");
    if (!isScalar(operand)) return n === undefined ? (shape ?? read.counts(argument, shape)) : [n];
    if (shape !== undefined) read.fail(argument, "is given for a scalar; allowed: none");
    return [];
  };
  return {
    condition: shapeOf("conditionShape", args.condition),
    a: shapeOf("shapeA", args.a),
    b: shapeOf("shapeB", args.b),
  };
}
