import type { BinaryKind } from "@backplane/core";
import type { TensorInfo } from "@tensorflow/tfjs-core";
import { complexParts } from "./complex.js";
import { elementwise, elementwiseOutputs } from "./elementwise.js";
import { combineFew } from "./few.js";
import { broadcast, type Expression, type Formula, formula, type Node } from "./formula.js";
import type { Call, Kernels } from "./kernel.js";
import { leakyRelu } from "./unary.js";

type BinaryCall = Call<"a" | "b">;

type Computed = "f32" | "i32";

/**
 * The type in which both operands are computed: bool has no arithmetic of its own, and is taken for whole numbers.
 */
function commonType({ a, b }: BinaryCall["inputs"]): Computed {
  return a.dtype === "float32" || b.dtype === "float32" ? "f32" : "i32";
}

/** Whether both operands have the same type, in which they are computed. */
function isOfOne({ a, b }: BinaryCall["inputs"]): boolean {
  return a.dtype === b.dtype && a.dtype !== "bool";
}

const tensorTypes = { f32: "float32", i32: "int32" } as const;

/** A formula of two operands in the type in which both are computed. */
function ofCommonType(build: (e: Expression, x: Node, y: Node) => Node): Formula {
  return formula((e, x, y) => {
    const type = x!.type === "f32" || y!.type === "f32" ? "f32" : "i32";
    return build(e, e.convert(type, x!), e.convert(type, y!));
  });
}

/** A kind of the operation `binary`, on numbers. `result`: by default the type in which both are computed. */
function ofNumbers(kind: BinaryKind, result?: "bool"): (call: BinaryCall) => TensorInfo {
  const built = ofCommonType((e, x, y) => e.binary(kind, x, y));
  return ({ inputs, backend }) => {
    const { a, b } = inputs;
    const type = commonType(inputs);
    const dtype = result ?? tensorTypes[type];
    const shape = broadcast(a.shape, b.shape);
    // Sums of two truth values are numbers in an array of bytes elsewhere, too.
    const few = isOfOne(inputs) ? combineFew(backend, kind, type, [a, b], shape, dtype) : undefined;
    return few ?? elementwise(backend, dtype, [a, b], built, shape);
  };
}

function logical(kind: BinaryKind): (call: BinaryCall) => TensorInfo {
  const built = formula((e, x, y) => e.binary(kind, e.truth(x!), e.truth(y!)));
  return ({ inputs: { a, b }, backend }) => elementwise(backend, "bool", [a, b], built);
}

/** Real and imaginary part of a result, of those of both operands. */
type ComplexRule = (e: Expression, a: readonly [Node, Node], b: readonly [Node, Node]) => [Node, Node];

/** A kernel of numbers that complex numbers have, too. */
function withComplex(
  kernel: (call: BinaryCall) => TensorInfo,
  rule: ComplexRule,
): (call: BinaryCall) => TensorInfo {
  return (call) => {
    const { a, b } = call.inputs;
    const { backend } = call;
    if (a.dtype !== "complex64" && b.dtype !== "complex64") return kernel(call);
    return complexParts(backend, [a, b], ([first, second]) => {
      const inputs = [first!.real, first!.imag, second!.real, second!.imag];
      const [real, imag] = elementwiseOutputs(backend, ["float32", "float32"], inputs, (e, ar, ai, br, bi) =>
        rule(e, [ar!, ai!], [br!, bi!]),
      );
      return backend.complex(real!, imag!);
    });
  };
}

/** floor(a / b), as an integer, also of floats. */
const floorDiv = ofCommonType((e, x, y) => e.binary("floorDiv", x, y));

const squaredDifference = ofCommonType((e, x, y) => e.unary("square", e.binary("sub", x, y)));

const atan2 = ofNumbers("atan2");
const atan2OfWhole = formula((e, y, x) => e.binary("atan2", e.convert("f32", y!), e.convert("f32", x!)));

const prelu = formula((e, value, slope) => leakyRelu(e, e.convert("f32", value!), e.convert("f32", slope!)));

const eluGradient = formula((e, ...nodes) => {
  const [gradient, value] = nodes.map((node) => e.convert("f32", node)) as [Node, Node];
  return e.select(
    e.binary("greaterEqual", value, e.constant(0)),
    gradient,
    e.binary("mul", gradient, e.binary("add", value, e.constant(1))),
  );
});

/** a^b of integers, with results that wrap around as products do. Fractions are cut off: 2^-1 is 0. */
function integerPower(e: Expression, a: Node, b: Node): Node {
  const [zero, one] = [e.constant(0, "i32"), e.constant(1, "i32")];
  const bits = 31;
  let power = a;
  let product = one;
  for (let bit = 0; bit < bits; bit++) {
    const isSet = e.binary(
      "notEqual",
      e.binary("and", b, e.constant(bit === 30 ? 2 ** 30 : 2 ** bit, "i32")),
      zero,
    );
    product = e.select(isSet, e.binary("mul", product, power), product);
    if (bit < bits - 1) power = e.binary("mul", power, power);
  }
  // 1 / a^-b: 1 for 1, 1 or -1 for -1, and nothing but a fraction for the others.
  const isOdd = e.binary("notEqual", e.binary("and", b, one), zero);
  const isUnit = e.binary("equal", e.unary("abs", a), one);
  const inverse = e.select(isUnit, e.select(isOdd, a, one), zero);
  return e.select(e.binary("less", b, zero), inverse, product);
}

const power = ofNumbers("pow");
const powerOfWhole = formula((e, x, y) => integerPower(e, e.convert("i32", x!), e.convert("i32", y!)));

export const binaryKernels: Kernels = {
  Add: withComplex(ofNumbers("add"), (e, [ar, ai], [br, bi]) => [
    e.binary("add", ar, br),
    e.binary("add", ai, bi),
  ]),
  Sub: withComplex(ofNumbers("sub"), (e, [ar, ai], [br, bi]) => [
    e.binary("sub", ar, br),
    e.binary("sub", ai, bi),
  ]),
  Multiply: withComplex(ofNumbers("mul"), (e, [ar, ai], [br, bi]) => [
    e.binary("sub", e.binary("mul", ar, br), e.binary("mul", ai, bi)),
    e.binary("add", e.binary("mul", ar, bi), e.binary("mul", ai, br)),
  ]),
  RealDiv: withComplex(ofNumbers("div"), (e, [ar, ai], [br, bi]) => {
    const norm = e.binary("add", e.unary("square", br), e.unary("square", bi));
    const real = e.binary("add", e.binary("mul", ar, br), e.binary("mul", ai, bi));
    const imag = e.binary("sub", e.binary("mul", ai, br), e.binary("mul", ar, bi));
    return [e.binary("div", real, norm), e.binary("div", imag, norm)];
  }),
  FloorDiv: ({ inputs: { a, b }, backend }: BinaryCall) => elementwise(backend, "int32", [a, b], floorDiv),
  Maximum: ofNumbers("max"),
  Minimum: ofNumbers("min"),
  Mod: ofNumbers("mod"),
  Atan2: (call: BinaryCall) => {
    if (commonType(call.inputs) === "f32") return atan2(call);
    const { a, b } = call.inputs;
    return elementwise(call.backend, "float32", [a, b], atan2OfWhole);
  },
  Pow: (call: BinaryCall) => {
    if (commonType(call.inputs) === "f32") return power(call);
    const { a, b } = call.inputs;
    return elementwise(call.backend, "int32", [a, b], powerOfWhole);
  },
  SquaredDifference: ({ inputs, backend }: BinaryCall) => {
    const type = tensorTypes[commonType(inputs)];
    return elementwise(backend, type, [inputs.a, inputs.b], squaredDifference);
  },
  BitwiseAnd: ofNumbers("and"),

  Equal: ofNumbers("equal", "bool"),
  NotEqual: ofNumbers("notEqual", "bool"),
  Less: ofNumbers("less", "bool"),
  LessEqual: ofNumbers("lessEqual", "bool"),
  Greater: ofNumbers("greater", "bool"),
  GreaterEqual: ofNumbers("greaterEqual", "bool"),

  LogicalAnd: logical("logicalAnd"),
  LogicalOr: logical("logicalOr"),
  LogicalXor: logical("logicalXor"),

  Prelu: ({ inputs: { x, alpha }, backend }: Call<"x" | "alpha">) =>
    elementwise(backend, "float32", [x, alpha], prelu),
  EluGrad: ({ inputs: { dy, y }, backend }: Call<"dy" | "y">) =>
    elementwise(backend, "float32", [dy, y], eluGradient),
};
